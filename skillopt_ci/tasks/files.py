"""Reads task files: from bytes to records with line numbers, and problems to report."""

import csv
import io
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt_ci.config.yaml import InvalidConfigError, Mark, loader_of, parse_yaml, plain
from skillopt_ci.errors import TaskFileError, location
from skillopt_ci.text import plural
from skillopt_ci.util import is_lfs_pointer, read_file

#: The most problems shown in one error: more would hide the first.
SHOWN = 10
_JSON_VALUE = re.compile(r"[^ \t\r\n,:]")
#: An object on each line, as pandas and Hugging Face's data sets write them to `.json`, too.
_JSON_LINES = re.compile(r"\s*\{.*\}[ \t\r]*\n\s*\{")


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A value in a task file and its line; ``name`` is its key if it is in a mapping."""

    value: Any
    file: Path
    line: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """A reason to refuse a task file; ``line`` counts from 1, None if it concerns no line."""

    file: Path | None
    line: int | None
    message: str
    is_last: bool = False  # what follows it could not be read

    def __str__(self) -> str:
        return f"{location(self.file, self.line)}: {self.message}"


def refuse(problems: Sequence[TaskProblem]) -> None:
    """Raise a :class:`TaskFileError` that shows up to ten of ``problems``, if there are any."""
    if not problems:
        return
    first, *others = problems
    lines, hidden = [first.message, *map(str, others[: SHOWN - 1])], len(problems) - SHOWN
    hint = f"… and {plural(hidden, 'more problem')}" if hidden > 0 else ""
    raise TaskFileError("\n".join(lines), file=first.file, line=first.line, hint=hint)


def read_source(file: Path) -> str:
    try:
        data = read_file(file).removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise TaskFileError(f"cannot be read: {error.strerror}", file=file) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TaskFileError(
            f"byte 0x{data[error.start]:02x} is not UTF-8", file=file, line=line
        ) from error
    if is_lfs_pointer(text):
        raise TaskFileError("is a Git LFS pointer", file=file, hint="Run `git lfs pull`.")
    return text


def read_records(file: Path) -> Iterator[TaskRecord | TaskProblem]:
    """The records of a task file in order, with a problem for each that cannot be read.

    Raises :class:`TaskFileError` for other kinds of files.
    """
    if (reader := READERS.get(file.suffix.lower())) is None:
        raise TaskFileError(
            f"expected a file ending in {', '.join(READERS)}",
            file=file,
            hint="pandas converts Parquet: `to_json('tasks.jsonl', orient='records', lines=True)`.",
        )
    text = read_source(file)
    try:
        for found in (_jsonl_records if _JSON_LINES.match(text) else reader)(text, file):
            if isinstance(found, TaskRecord) and not isinstance(found.value, dict):
                yield TaskProblem(file, found.line, "expected a mapping for each task")
            else:
                yield found
    except TaskFileError as error:
        yield TaskProblem(file, error.line, error.message, is_last=True)


def _json_records(text: str, file: Path) -> Iterator[TaskRecord]:
    document, start = _decoded(text), _next_value(text, 0)
    named = document if isinstance(document, dict) else {}
    # `rows` is in what Hugging Face's server of data sets answers, `examples` in BIG-bench's files
    if key := next((k for k in ("data", "rows", "examples") if isinstance(named.get(k), list)), ""):
        start = dict(zip(named, _places(text, start), strict=True))[key]
        document = named[key]
    if not (isinstance(document, list) or any(isinstance(one, dict) for one in named.values())):
        raise TaskFileError("expected a JSON array of tasks, or an object of named tasks", line=1)
    items: Iterable[tuple[str | None, object]] = (
        ((None, one) for one in document) if isinstance(document, list) else named.items()
    )
    line_feeds = [match.start() for match in re.finditer("\n", text)]
    for (name, value), place in zip(items, _places(text, start), strict=True):
        yield TaskRecord(value, file, bisect_left(line_feeds, place) + 1, name)


def _jsonl_records(text: str, file: Path) -> Iterator[TaskRecord | TaskProblem]:
    if text.lstrip().startswith("["):
        raise TaskFileError("expected a task on each line; a file of one array ends in .json")
    # Split at line feeds only: JSON strings may contain other Unicode line separators.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield TaskRecord(_decoded(line.strip("\r")), file, number)
            except TaskFileError as error:
                yield TaskProblem(file, number, error.message)


def _csv_records(text: str, file: Path) -> Iterator[TaskRecord | TaskProblem]:
    csv.field_size_limit(len(text))  # no cell is too long
    header_line, *others = re.sub('"[^"]*"', "", text).split("\n")
    # spreadsheets write semicolons where a comma is the decimal point
    delimiter = max(
        ",;\t",
        key=lambda one: (
            one in header_line and sum(row.count(one) == header_line.count(one) for row in others),
            header_line.count(one),
        ),
    )
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        header = next(rows, [])
        if header == ["sep=", ""]:  # says the delimiter to Excel: sep=;
            header = next(rows, [])
        named = [*filter(None, header)]  # spreadsheets write empty columns, too
        if len(set(named)) < len(named):
            raise TaskFileError("the header names a column twice", line=line)
        line = rows.line_num + 1
        for row in rows:
            if len(row) > len(header):
                yield TaskProblem(file, line, "more cells than the header has")
            elif any(row):
                cells = zip(header, row, strict=False)
                yield TaskRecord({key: cell for key, cell in cells if cell}, file, line)
            line = rows.line_num + 1  # the start of the next row: cells may contain line feeds
    except csv.Error as error:
        raise TaskFileError(f"invalid CSV: {error}", line=line) from error


class _Written(float):
    """A number that knows its text, so that references of 3.10 and 3.1 differ."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _decoded(text: str) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=refuse_constant,
            parse_float=_Written,
        )
    except json.JSONDecodeError as error:
        raise TaskFileError(f"invalid JSON: {error.msg}", line=error.lineno) from error
    except ValueError as error:
        raise TaskFileError(f"invalid JSON: {error}") from error
    except RecursionError as error:
        raise TaskFileError("invalid JSON: nested too deeply") from error


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"key {key!r} is repeated in one object")
        members[key] = value
    return members


def refuse_constant(name: str) -> object:
    """For ``json``'s ``parse_constant``: refuse NaN and infinity, which are not JSON."""
    raise ValueError(f"{name} is not a JSON number")


# The functions below find positions in text that is known to be valid JSON. The standard library's
# decoder has checked it, but reports no positions.


def _places(text: str, opening: int) -> Iterator[int]:
    position = _next_value(text, opening + 1)
    while text[position] not in "]}":
        if text[opening] == "{":  # a key
            position = _next_value(text, _end(text, position))
        yield position
        position = _next_value(text, _end(text, position))


def _next_value(text: str, position: int) -> int:
    return next(_JSON_VALUE.finditer(text, position)).start()


def _end(text: str, position: int) -> int:
    return json.JSONDecoder().raw_decode(text, position)[1]


#: Only JSON's types are more than text. In tasks, dates, ``yes``, ``12:30`` and ``007`` are usually
#: answers, not dates, truth values or octal numbers.
_Loader = loader_of(
    null="~|null|",
    bool="true|false",
    int=r"[-+]?(0|[1-9]\d*)",
    float=r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?",
)
_Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: _Written(node.value))


def _yaml_records(text: str, file: Path) -> Iterator[TaskRecord]:
    try:
        root = parse_yaml(text, Mark(file, 1), _Loader)
    except InvalidConfigError as error:
        (problem,) = error.problems
        raise TaskFileError(problem.text, line=problem.mark.line) from error
    if root.value and not isinstance(root.value, tuple):
        raise TaskFileError("expected a list of tasks", line=root.mark.line)
    for node in root.value if isinstance(root.value, tuple) else ():
        yield TaskRecord(plain(node), file, node.mark.line or 1)


#: The readers of task files, by suffix.
READERS: Mapping[str, Callable[[str, Path], Iterator[TaskRecord | TaskProblem]]] = {
    ".csv": _csv_records,
    ".tsv": _csv_records,
    ".jsonl": _jsonl_records,
    ".ndjson": _jsonl_records,
    ".json": _json_records,
    ".yaml": _yaml_records,
    ".yml": _yaml_records,
}
