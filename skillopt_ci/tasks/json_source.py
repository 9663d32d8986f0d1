"""Records of JSON and JSONL files, with their lines."""

import json
import re
from collections.abc import Iterator
from functools import partial

from skillopt_ci.tasks.problems import Problem
from skillopt_ci.tasks.source import Record, SourceText, numbered_lines

_NOT_BLANK = re.compile(r"[^ \t\r\n]")


def read_json(source: SourceText) -> Iterator[Record | Problem]:
    """Records of an array, of ``{"data": […]}``, or of a mapping of records."""
    try:
        document = _decode(source.text)
    except ValueError as error:
        yield _problem(source, error)
        return
    start = _skip(source.text, 0)
    if isinstance(document, dict):
        members = zip(document, document.values(), _starts(source.text, start), strict=True)
        if isinstance(document.get("data"), list):
            start = next(_after_key(source.text, at) for key, _, at in members if key == "data")
            document = document["data"]
        else:
            for key, value, at in members:
                yield _record(source, value, _after_key(source.text, at), key)
            return
    if not isinstance(document, list):
        yield Problem(source.file, 1, "expected a JSON array or object of tasks")
        return
    for value, at in zip(document, _starts(source.text, start), strict=True):
        yield _record(source, value, at)


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


def _problem(source: SourceText, error: ValueError) -> Problem:
    line = error.lineno if isinstance(error, json.JSONDecodeError) else None
    return Problem(source.file, line, _explain(error))


def _record(
    source: SourceText, value: object, start: int, name: str | None = None
) -> Record | Problem:
    line = source.line_at(start)
    if not isinstance(value, dict):
        return Problem(source.file, line, "expected a JSON object for each task")
    return Record(value, source.file, line, partial(_key_line, source, value, start), name)


def _key_line(source: SourceText, value: dict[str, object], start: int, key: str) -> int:
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
