"""A rejected task entry in words: which key, what was expected, what was probably meant."""

import re
import textwrap
from collections.abc import Iterator, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skillopt_ci.config.base import Section
from skillopt_ci.config.reference import choices, fields, sections
from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.tasks.entry import MessageEntry, TaskEntry
from skillopt_ci.tasks.problems import did_you_mean

#: Names from elsewhere that no spelling distance leads to ours.
_ELSEWHERE = {
    "answer": "references",
    "answers": "references",
    "expected": "references",
    "target": "references",
    "question": "prompt",
    "input": "prompt",
    "type": "task_type",
}
_MISSING = {"missing": "is missing", "union_tag_not_found": "`type` is missing"}
_EXPECTED = {
    "string_type": "expected text",
    "dict_type": "expected a mapping",
    "tuple_type": "expected a list",
}
_SCORERS = {choices(fields(shape)["type"].annotation)[0]: shape for shape in sections(ScorerSpec)}

Location = Sequence[str | int]


def explain(error: ValidationError) -> Iterator[tuple[str, str]]:
    """For each error, the entry's key that it lies under (empty for the whole) and its message."""
    details = error.errors(include_url=False)
    for detail in details:
        location = detail["loc"]
        # A list "too short" because its items are wrong says nothing new.
        if not any(_lies_under(location, other["loc"]) for other in details):
            yield str(location[0]) if location else "", f"{_path(location)}{_message(detail)}"


def _lies_under(location: Location, deeper: Location) -> bool:
    return 0 < len(location) < len(deeper) and deeper[: len(location)] == location


def _message(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown key; {_nearest_key(detail['loc'])}"
        case "value_error":
            return str(context["error"])
        case "literal_error" | "union_tag_invalid":
            expected = str(context.get("expected_tags") or context["expected"])
            value, known = str(context.get("tag", detail["input"])), re.findall("'(.*?)'", expected)
            return f"{value!r} is not known; {did_you_mean(value, known)}"
    if fault := _MISSING.get(detail["type"]):
        return fault
    got = textwrap.shorten(repr(detail["input"]), 60, placeholder="…")
    expected = _EXPECTED.get(detail["type"], detail["msg"].replace("Input should be", "expected"))
    return f"{expected}, got {got}"


def _nearest_key(location: Location) -> str:
    key = str(location[-1])
    model = _model_at(location[:-1])
    if model is TaskEntry and key in _ELSEWHERE:
        return f"did you mean {_ELSEWHERE[key]!r}?"
    return did_you_mean(key, fields(model))


def _model_at(location: Location) -> type[Section]:
    if location[:1] == ("messages",):
        return MessageEntry
    if location[:1] == ("computer",):
        return _inner(ComputerBlock, location[1:])
    kinds = [index for index, step in enumerate(location) if step in _SCORERS]
    if not kinds:
        return TaskEntry
    return _inner(_SCORERS[str(location[kinds[-1]])], location[kinds[-1] + 1 :])


def _inner(model: type[Section], keys: Location) -> type[Section]:
    """The section that ``keys`` lead to from ``model``, as far as they name sections."""
    for key in keys:
        field = fields(model).get(str(key))
        model = next(sections(field.annotation), model) if field else model
    return model


def _path(location: Location) -> str:
    steps = [
        f"[{step}]" if isinstance(step, int) else f".{step}"
        for index, step in enumerate(location)
        if not _is_tag(location, index)
    ]
    return f"{''.join(steps).removeprefix('.')}: " if steps else ""


def _is_tag(location: Location, index: int) -> bool:
    """Whether the step names a scorer's type or a union's branch, not a key of the file."""
    before = location[index - 1] if index else ""
    return location[0] == "scorer" and (before == "scorer" or isinstance(before, int))
