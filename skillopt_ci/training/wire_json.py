"""The JSON object in a model's reply, found in spite of fences, prose, slips and truncation.

What a reply was cut off in the middle of is left out, never completed by guesswork: half a
sentence must not become a rule of the skill.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from skillopt_ci.errors import SkilloptError

#: Longer objects are not repaired: the repairer's time can grow faster than the text.
MAX_REPAIRED_CHARS = 100_000

_OPENING = re.compile(r"""\{(?=\s*["'])""")
_TOKEN = re.compile(r"""\"(?:[^"\\]|\\.)*+(?:"|(?P<open>\\?\Z))|[{}\[\],]""", re.DOTALL)
_FENCE_BEFORE = re.compile(r"```[ \t]*\w*\s*\Z")
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
#: Raw line breaks inside strings are the commonest slip: ``strict=False`` reads them.
_DECODER = json.JSONDecoder(strict=False)


class WireError(SkilloptError):
    """A reply that cannot be used; the message is fit to be shown to the model."""


@dataclass(frozen=True, slots=True)
class _Extent:
    """How far an object reaches: to ``end``, or else to a ``kept`` part that ``closers`` close."""

    end: int | None
    kept: int = 0
    closers: str = ""
    in_string: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    source: str
    value: dict[str, object]


def extract_json(text: str) -> dict[str, object]:
    """Return the one JSON object that ``text`` holds.

    Of several different objects the one that alone stands in a fence counts. Raises
    :class:`WireError` if there is none, or none that can be told to be the answer.
    """
    thought = _THOUGHT.match(text)
    body = text[thought.end() :] if thought else text
    found = list(_objects(body))
    if not found:
        raise WireError("The reply holds no complete JSON object. Reply with exactly one.")
    fenced = [each for each in found if _FENCE_BEFORE.search(body, 0, each.start)]
    choice = fenced if len(fenced) == 1 else found
    if len({each.source for each in choice}) > 1:
        raise WireError(f"The reply holds {len(choice)} JSON objects. Reply with exactly one.")
    return choice[0].value


def _objects(text: str) -> Iterator[_Found]:
    """Yield the outermost non-empty objects of ``text``, in one pass over it."""
    position = 0
    while opening := _OPENING.search(text, position):
        start = opening.start()
        value: object
        try:
            value, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            extent = _measure(text, start)
            position = len(text) if extent.end is None else extent.end
            value = _mended(text[start:position], start, extent)
        if isinstance(value, dict) and value:
            yield _Found(start, text[start:position], value)


def _measure(text: str, start: int) -> _Extent:
    stack: list[str] = []
    kept, depth, in_string = start, 0, False
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        in_string = token["open"] is not None
        if mark in "{[":
            stack.append("}" if mark == "{" else "]")
        elif mark == "," and len(stack) == 1:
            kept, depth = token.start(), 1
        elif stack[-1] == mark:
            stack.pop()
            if not stack:
                return _Extent(token.end())
            kept, depth = token.end(), len(stack)
    return _Extent(None, kept, "".join(reversed(stack[:depth])), in_string)


def _mended(span: str, start: int, extent: _Extent) -> object:
    misquoted = extent.in_string and span.rstrip("`\n\r\t ").endswith("}")
    if extent.end is not None or misquoted:
        return _repaired(span)
    return _repaired(span[: extent.kept - start] + extent.closers)


def _repaired(span: str) -> object:
    with suppress(ValueError, RecursionError):
        return _DECODER.decode(span)
    if len(span) > MAX_REPAIRED_CHARS:
        return None
    import json_repair  # noqa: PLC0415 - most replies need no repair

    try:
        return json_repair.loads(span, skip_json_loads=True)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
