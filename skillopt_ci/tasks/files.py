"""Reading task files: from bytes to records that know their lines."""

import difflib
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from skillopt_ci.errors import TaskFileError

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Record:
    """One mapping of a task file, as it was written.

    ``line_of`` gives the line of one of its keys; ``name`` is the key under which the record
    itself stands, where the file is a mapping of records.
    """

    value: dict[str, object]
    file: Path
    line: int
    line_of: Callable[[str], int]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file; knows the line of every position."""

    file: Path
    text: str
    line_feeds: tuple[int, ...]

    def line_at(self, position: int) -> int:
        """Line number, from 1, of the character at ``position``."""
        return bisect_left(self.line_feeds, position) + 1


def read_source(file: Path) -> SourceText:
    """Read UTF-8 text, with or without a byte order mark.

    Raises :class:`TaskFileError` when the file cannot be read or a byte is not UTF-8.
    """
    try:
        data = file.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise TaskFileError(f"cannot be read: {error.strerror}", file=file) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TaskFileError(
            f"byte 0x{data[error.start]:02x} is not UTF-8", file=file, line=line
        ) from error
    return SourceText(file, text, tuple(match.start() for match in re.finditer("\n", text)))


def numbered_lines(source: SourceText) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1.

    Only line feeds separate lines: JSON strings may hold other Unicode line separators raw.
    """
    for number, line in enumerate(source.text.split("\n"), start=1):
        if line.strip():
            yield number, line.strip("\r")


# What is wrong with task files, collected so that a person can mend all of it at once.

#: Problems shown in one error: more would hide the first.
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason to refuse a task file; ``line`` counts from 1, None where no line is to blame."""

    file: Path | None
    line: int | None
    message: str

    def __str__(self) -> str:
        return f"{location(self.file, self.line)}: {self.message}"


def location(file: Path | None, line: int | None) -> str:
    """``file:line`` as editors understand it."""
    if file is None:
        return "(not from a file)"
    return f"{file}" if line is None else f"{file}:{line}"


def refuse(problems: Sequence[Problem]) -> None:
    """Raise one :class:`TaskFileError` that shows up to ten of ``problems``; none, no error."""
    if not problems:
        return
    first, *others = problems
    lines = [first.message, *map(str, others[: SHOWN - 1])]
    hidden = len(problems) - SHOWN
    hint = f"… and {hidden} more problem{'s' if hidden > 1 else ''}" if hidden > 0 else ""
    raise TaskFileError("\n".join(lines), file=first.file, line=first.line, hint=hint)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Words that lead from a wrong ``name`` to the nearest known one, or to all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name.casefold(), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names)}"


# Records of JSON and JSONL files, with their lines.

_NOT_BLANK = re.compile(r"[^ \t\r\n]")


def read_json(source: SourceText) -> Iterator[Record | Problem]:
    """Records of an array, of ``{"data": […]}``, or of a mapping of records."""
    try:
        document = _decode(source.text)
    except ValueError as error:
        yield _json_source_problem(source, error)
        return
    start = _skip(source.text, 0)
    if isinstance(document, dict):
        members = zip(document, document.values(), _starts(source.text, start), strict=True)
        if isinstance(document.get("data"), list):
            start = next(_after_key(source.text, at) for key, _, at in members if key == "data")
            document = document["data"]
        else:
            for key, value, at in members:
                yield _json_source_record(source, value, _after_key(source.text, at), key)
            return
    if not isinstance(document, list):
        yield Problem(source.file, 1, "expected a JSON array or object of tasks")
        return
    for value, at in zip(document, _starts(source.text, start), strict=True):
        yield _json_source_record(source, value, at)


def read_jsonl(source: SourceText) -> Iterator[Record | Problem]:
    """Records of a file with one JSON object per line; blank lines mean nothing."""
    for number, line in numbered_lines(source):
        try:
            value = _decode(line)
        except ValueError as error:
            yield Problem(source.file, number, _explain(error))
            continue
        if isinstance(value, dict):
            yield Record(value, source.file, number, line_of=partial(_constant, number))
        else:
            yield Problem(source.file, number, "expected a JSON object on this line")


def _decode(text: str) -> object:
    try:
        value: object = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"key {key!r} stands twice in one object")
        members[key] = value
    return members


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _explain(error: ValueError) -> str:
    detail = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return f"invalid JSON: {detail}"


def _json_source_problem(source: SourceText, error: ValueError) -> Problem:
    line = error.lineno if isinstance(error, json.JSONDecodeError) else None
    return Problem(source.file, line, _explain(error))


def _json_source_record(
    source: SourceText, value: object, start: int, name: str | None = None
) -> Record | Problem:
    line = source.line_at(start)
    if not isinstance(value, dict):
        return Problem(source.file, line, "expected a JSON object for each task")
    return Record(
        value, source.file, line, partial(_json_source_key_line, source, value, start), name
    )


def _json_source_key_line(
    source: SourceText, value: dict[str, object], start: int, key: str
) -> int:
    if key not in value:
        return source.line_at(start)
    return source.line_at(_starts(source.text, start)[list(value).index(key)])


def _constant(number: int, _key: str) -> int:
    return number


# The functions below walk text that is known to be valid JSON: the decoder of the standard library
# has judged it before and knows no positions.


def _starts(text: str, opening: int) -> list[int]:
    """Where the elements of the array, or the keys of the object, at ``opening`` start."""
    starts = []
    position = _skip(text, opening + 1)
    while text[position] not in "]}":
        starts.append(position)
        position = _skip(text, _end(text, position))
        if text[position] == ":":
            position = _skip(text, _end(text, _skip(text, position + 1)))
        if text[position] == ",":
            position = _skip(text, position + 1)
    return starts


def _after_key(text: str, key_start: int) -> int:
    return _skip(text, _skip(text, _end(text, key_start)) + 1)


def _skip(text: str, position: int) -> int:
    found = _NOT_BLANK.search(text, position)
    return found.start() if found else len(text)


def _end(text: str, position: int) -> int:
    return json.JSONDecoder().raw_decode(text, position)[1]


# Records of a YAML file, with their lines.


class TaskLoader(yaml.SafeLoader):
    """Safe YAML in which only what JSON also has is more than text.

    Dates, ``yes``, ``12:30`` and ``007`` stay the text that stands there: they are answers far
    more often than they are dates, truth values or octal numbers. A repeated key is an error.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, object]:
        """Build the mapping; raises ``ConstructorError`` at a key that stands twice."""
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, ScalarNode)):
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?(0|[1-9]\d*)", list("-+0123456789")),
    ("float", r"[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", list("-+0123456789")),
    ("merge", r"<<", ["<"]),
):
    TaskLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$", re.ASCII), _first
    )


def read_yaml(source: SourceText) -> Iterator[Record | Problem]:
    """Records of a YAML list."""
    try:
        loader = TaskLoader(source.text)
        root = loader.get_single_node()
        if root is None:
            return
        if not isinstance(root, SequenceNode):
            yield Problem(source.file, _line(root), "expected a list of tasks")
            return
        for node in root.value:
            yield _yaml_source_record(source, loader, node)
    except RecursionError:
        yield Problem(source.file, None, "invalid YAML: nested too deeply")
    except yaml.YAMLError as error:
        yield _yaml_source_problem(source, error)


def _yaml_source_record(source: SourceText, loader: TaskLoader, node: Node) -> Record | Problem:
    if not isinstance(node, MappingNode):
        return Problem(source.file, _line(node), "expected a mapping for each task")
    lines = {str(key.value): _line(key) for key, _ in node.value}
    value = loader.construct_document(node)
    if odd := [key for key in value if not isinstance(key, str)]:
        return Problem(source.file, _line(node), f"key {odd[0]!r} is not text; write it in quotes")
    return Record(
        value, source.file, _line(node), partial(_yaml_source_key_line, lines, _line(node))
    )


def _yaml_source_key_line(lines: dict[str, int], default: int, key: str) -> int:
    return lines.get(key, default)


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1


def _yaml_source_problem(source: SourceText, error: yaml.YAMLError) -> Problem:
    if isinstance(error, ReaderError):
        return Problem(source.file, source.line_at(error.position), f"invalid YAML: {error.reason}")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(source.file, None, f"invalid YAML: {error}")
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    return Problem(source.file, line, f"invalid YAML: {error.problem or error.context}")
