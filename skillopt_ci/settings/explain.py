"""Pydantic's errors in the words of the person who wrote the file."""

import re

from pydantic_core import ErrorDetails

from skillopt_ci.settings.base import Section
from skillopt_ci.settings.described import meanings
from skillopt_ci.settings.keys import Location, choices, fields, homes, locate, sections
from skillopt_ci.settings.model import ModelRole
from skillopt_ci.settings.problem import nearest

KeyPath = tuple[str | int, ...]

_SECRET = re.compile(r"(^|_)(key|token|secret|password)(_env)?$", re.IGNORECASE)
_LONGEST_SHOWN = 60
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_too_short": "text that is not empty",
    "too_short": "a list that is not empty",
}


def explain(error: ErrorDetails) -> tuple[KeyPath, str]:
    """The key path that ``error`` is about, and what to say of it in one line."""
    place = locate(error["loc"])
    shapes = list(sections(_annotation(place)))
    if shapes and error["type"] in ("union_tag_invalid", "union_tag_not_found", "dict_type"):
        return _wrong_shape(place, shapes, error["input"])
    return place.path, _words(place, error)


def shown(path: KeyPath, value: object) -> str:
    """A value for a message: in the file's words, short, and never one that may be a secret."""
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None:
        return "nothing"
    if any(_SECRET.search(str(step)) for step in path):
        return "the value (not shown)"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _words(place: Location, error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            return _unknown(place)
        case "missing":
            return f"missing. {_about(place)}".strip()
        case "literal_error":
            return _not_among(error["input"], choices(_annotation(place)))
        case "string_pattern_mismatch":
            return f"{shown(place.path, error['input'])} does not fit. {_about(place)}"
    return _mismatch(place, error)


def _unknown(place: Location) -> str:
    name = str(place.path[-1])
    if name == "api_key":
        return (
            "a key does not belong in a file; put it into an environment variable "
            "and give that variable's name as api_key_env"
        )
    known = tuple(fields(place.section)) if place.section else ()
    hint = nearest(name, known)
    if not hint and homes(name) and place.path[0] not in ("tasks", "scorer"):
        hint = f"; did you mean {' or '.join(homes(name))}?"
    return f"unknown key{hint or '; known here: ' + ', '.join(known)}"


def _not_among(value: object, known: tuple[str, ...]) -> str:
    return f"{shown((), value)} is not one of {', '.join(known)}{nearest(str(value), known)}"


def _wrong_shape(
    place: Location, shapes: list[type[Section]], value: object
) -> tuple[KeyPath, str]:
    known = tuple(c for s in shapes for c in choices(_type_of(s)))
    if isinstance(value, dict) and "type" in value:
        return (*place.path, "type"), _not_among(value["type"], known)
    if isinstance(value, dict):
        return (*place.path, "type"), f"missing: one of {', '.join(known)}"
    example = "{type: exact}" if known else "{path: tasks.jsonl}"
    return place.path, f"expected a mapping such as {example}, found {shown(place.path, value)}"


def _mismatch(place: Location, error: ErrorDetails) -> str:
    if error["type"] == "model_type" and ModelRole in sections(_annotation(place)):
        found = shown(place.path, error["input"])
        return f"expected provider/model, such as openai/gpt-5.5, or a mapping, found {found}"
    if error["type"] == "json_invalid":
        return "nested too deeply, or text with characters that are not Unicode"
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    found = shown(place.path, error["input"])
    if error["type"] in _EXPECTED:
        return f"expected {_EXPECTED[error['type']]}, found {found}"
    message = error["msg"].removeprefix("Input should be ")
    return f"expected a value {message}, found {found}"


def _annotation(place: Location) -> object:
    return place.field.annotation if place.field else None


def _type_of(section: type[Section]) -> object:
    kind = section.model_fields.get("type")
    return kind.annotation if kind else None


def _about(place: Location) -> str:
    known = meanings(place.section) if place.section else {}
    key = next((step for step in reversed(place.path) if isinstance(step, str)), "")
    return " ".join(known.get(key, "").split())
