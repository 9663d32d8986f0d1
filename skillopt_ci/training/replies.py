"""Replies of the optimizer model: tolerant parsing, strict validation.

A reply that cannot be used raises :class:`WireError`, whose message can be shown to the model on
its one retry. In a reply that can be used, single unusable edits are dropped.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StringConstraints,
    ValidationError,
    model_validator,
)

from skillopt_ci.errors import SkilloptError
from skillopt_ci.model.types import ReplySchema
from skillopt_ci.skill.edits import Edit, Source
from skillopt_ci.skill.regions import unprotected

# The JSON object in a model's reply, found in spite of fences, prose and slips.

#: Longer objects are not repaired: the repairer's time can grow faster than the text.
MAX_REPAIRED_CHARS = 100_000
#: So many beginnings of objects that are no JSON are looked into: each may take a pass over the
#: whole reply.
MAX_BROKEN_OBJECTS = 30
#: Longer lists are no answer but a loop.
MAX_ENTRIES = 1_000

_OPENING = re.compile(r"""\{(?=\s*["'])""")
_TOKEN = re.compile(r"""\"(?:[^"\\]|\\.)*+(?:"|(?P<open>\\?\Z))|[{}\[\],]""", re.DOTALL)
_FENCE = re.compile(r"\n[ \t]*```")
_FENCE_BEFORE = re.compile(r"```[ \t]*\w*\s*\Z")
_FENCE_CHARS = 80
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
#: Raw line breaks inside strings are the commonest slip: ``strict=False`` reads them.
_DECODER = json.JSONDecoder(strict=False)


class WireError(SkilloptError):
    """A reply that cannot be used; the message is fit to be shown to the model."""


def extract_json(text: str) -> dict[str, object]:
    """Return the one JSON object that ``text`` holds.

    Of several different ones the one that alone stands in a fence counts. Where all there is was
    cut off, its whole parts count, and no text without its end. Raises :class:`WireError` if there
    is none, or none that can be told to be the answer.
    """
    thought = _THOUGHT.match(text)
    body = text[thought.end() :] if thought else text
    objects = list(_objects(body))
    if not objects and (parts := _whole_parts(body)):
        return parts
    if not objects:
        raise WireError("The reply holds no complete JSON object. Reply with exactly one.")
    fenced = [
        (start, value)
        for start, value in objects
        if _FENCE_BEFORE.search(body, max(0, start - _FENCE_CHARS), start)
    ]
    choice = fenced if len(fenced) == 1 else objects
    first = choice[0][1]
    if any(value != first for _, value in choice[1:]):
        raise WireError(f"The reply holds {len(choice)} JSON objects. Reply with exactly one.")
    return first


def _objects(text: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield where the outermost non-empty objects of ``text`` begin, and what they are."""
    position = broken = 0
    while broken < MAX_BROKEN_OBJECTS and (opening := _OPENING.search(text, position)):
        start = opening.start()
        value: object
        try:
            value, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            broken += 1
            value, position = _broken_object(text, start, getattr(error, "pos", len(text)))
        if isinstance(value, dict) and value:
            yield start, value


def _broken_object(text: str, start: int, failure: int) -> tuple[object, int]:
    """Repair the object at ``start``, which is no JSON from ``failure`` on.

    Returns it, or None, and where to read on. Its braces must close before the next fence: what is
    cut off is never completed.
    """
    fence = _FENCE.search(text, start)
    limit = fence.start() if fence else len(text)
    depth, in_string = 0, False
    for token in _TOKEN.finditer(text, start, limit):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        in_string = token["open"] is not None
        if depth == 0:
            return _repaired(text[start : token.end()]), token.end()
    return None, limit if fence or in_string else max(failure, start + 1)


def _whole_parts(text: str) -> dict[str, object]:
    """What is whole of the first object in ``text``, which was cut off."""
    opening = _OPENING.search(text)
    start = kept = opening.start() if opening else len(text)
    closers, depth = list[str](), 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in "{[":
            closers.append("}" if mark == "{" else "]")
        elif mark == "," and len(closers) == 1:
            kept, depth = token.start(), 1
        elif closers and closers[-1] == mark:
            closers.pop()
            kept, depth = token.end(), len(closers)
    with suppress(ValueError, RecursionError):
        value = _DECODER.decode(text[start:kept] + "".join(reversed(closers[:depth])))
        return value if isinstance(value, dict) else {}
    return {}


def _repaired(span: str) -> object:
    if len(span) > MAX_REPAIRED_CHARS:
        return None
    import json_repair  # noqa: PLC0415 - most replies need no repair

    with suppress(ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return json_repair.loads(span, skip_json_loads=True)
    return None


# The agreed shapes of the optimizer model's replies: strict where needed, lenient elsewhere.

#: No count in a reply means more than this.
MAX_COUNT = 100_000

_LINE_BREAK = re.compile(r"\r\n?")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_WHOLE_NUMBER = re.compile(r"\s*\+?(\d{1,9})(?:\.0*)?\s*", re.ASCII)
_PYDANTIC_WORDS = re.compile(r"^Value error, | or instance of \w+$")


def clean(text: str) -> str:
    """Return ``text`` with plain line breaks and no control characters but these and tabs."""
    return _UNPRINTABLE.sub("", _LINE_BREAK.sub("\n", text))


def whole_number(value: object) -> int | None:
    """Read a non-negative whole number, written as a number or as text; truth values are none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    match = _WHOLE_NUMBER.fullmatch(str(value))
    return int(match[1]) if match else None


def _count(value: object) -> int | None:
    number = whole_number(value)
    return None if number is None else min(number, MAX_COUNT)


def _cleaned(value: object) -> object:
    return clean(value) if isinstance(value, str) else value


def _text_or_nothing(value: object) -> str:
    return clean(value).strip() if isinstance(value, str) else ""


def _with_a_body(document: str) -> str:
    if not unprotected(document):
        raise ValueError("the document has nothing outside of its protected parts")
    return document


def _notes(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(_text_or_nothing, entries[:MAX_ENTRIES])))


def _reminders(value: object) -> tuple[str, ...]:
    """Read notes from a list or a single one, each a text or an object that holds one."""
    entries = value if isinstance(value, list) else [value]
    return _notes(
        [
            entry.get("note") or entry.get("content") if isinstance(entry, dict) else entry
            for entry in entries
        ]
    )


def _list_or_nothing(value: object) -> list[object]:
    return value[:MAX_ENTRIES] if isinstance(value, list) else []


def _source(value: object) -> object:
    return value if value in get_args(Source) else None


_Count = Annotated[int | None, BeforeValidator(_count)]
_Text = Annotated[str, BeforeValidator(_cleaned)]
_Word = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1), BeforeValidator(_cleaned)
]
_Document = Annotated[_Word, AfterValidator(_with_a_body)]
_Note = Annotated[str, BeforeValidator(_text_or_nothing)]
_Notes = Annotated[tuple[str, ...], BeforeValidator(_notes)]
_Reminders = Annotated[tuple[str, ...], BeforeValidator(_reminders)]
_Entries = Annotated[list[object], BeforeValidator(_list_or_nothing)]


class Shape(BaseModel):
    """A JSON object in a reply; keys that nobody asked for are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _ItemShape(Shape):
    """What every kind of proposed edit may say of its provenance."""

    support_count: _Count = None
    source_type: Annotated[Source | None, BeforeValidator(_source)] = None
    merge_level: _Count = None
    note_ids: _Notes = ()


class _EditShape(_ItemShape):
    """One proposed edit; an absent ``content`` is no licence to delete the target."""

    op: _Word
    target: _Text | None = None
    content: _Text | None = None

    @model_validator(mode="after")
    def _says_what_to_write(self) -> "_EditShape":
        if self.content is None and self.op != "delete":
            raise ValueError("`content` is missing")
        return self


class _SuggestionShape(_ItemShape):
    """One suggestion; what it is about must be said, the rest may be missing."""

    type: _Note = ""
    title: _Note = ""
    motivation: _Note = ""
    instruction: _Word
    priority_hint: _Note = ""


class _CandidateShape(_ItemShape):
    """One whole document."""

    title: _Note = ""
    change_summary: _Notes = ()
    new_skill: _Document


class RewriteShape(Shape):
    """The document as the optimizer rewrote it."""

    reasoning: _Note = ""
    change_summary: _Notes = ()
    new_skill: _Document


class LearningRateShape(Shape):
    """The number of changes that the optimizer wants applied, still to be made sense of."""

    learning_rate: object
    reasoning: _Note = ""
    confidence: _Note = ""
    risk_notes: _Notes = ()


class _FailureShape(Shape):
    failure_type: _Note = ""
    description: _Note = ""
    count: _Count = None


class _PatchShape(Shape):
    """The proposal itself; its entries stand under a key that depends on the update mode."""

    model_config = ConfigDict(extra="allow", frozen=True)

    reasoning: _Note = ""


class _ReplyShape(Shape):
    """An analyst's or merger's reply."""

    patch: _PatchShape
    failure_summary: _Entries = []
    success_patterns: _Entries = []
    appendix_notes: _Reminders = ()


class RemindersShape(Shape):
    """The appendix as the optimizer condensed it."""

    appendix_notes: _Reminders


class _RankingShape(Shape):
    selected_indices: list[object]
    reasoning: _Note = ""


_WRONG_SHAPE = "The reply does not have the agreed shape"
_Model = TypeVar("_Model", bound=BaseModel)


def parse_as(model: type[_Model], text: str) -> _Model:
    """Return the object in a reply as ``model``; raises :class:`WireError`."""
    return _validated(model, extract_json(text))


def _validated(model: type[_Model], reply: object) -> _Model:
    try:
        return model.model_validate(reply)
    except ValidationError as error:
        raise WireError(f"{_WRONG_SHAPE}: {_explained(error)}.") from error


def _explained(error: ValidationError) -> str:
    """The first fault, with the key that has it."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    message = _PYDANTIC_WORDS.sub("", first["msg"]).replace("valid dictionary", "JSON object")
    return f"`{key}`: {message}" if key else message


# What analysts propose: a patch is a set of edits with the reasoning behind them.


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A revision in words, for whoever rewrites the document.

    ``type`` (such as ``add_rule``) and ``priority_hint`` are kept as the model wrote them. As in
    every edit, ``note_ids`` names the reviewers' notes that it follows.
    """

    type: str
    title: str
    instruction: str
    motivation: str = ""
    priority_hint: str = ""
    source_type: Source = "failure"
    support_count: int = 1
    merge_level: int = 0
    note_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """A whole document that is to replace the skill, and what is new in it."""

    new_skill: str
    title: str = ""
    change_summary: tuple[str, ...] = ()
    source_type: Source = "failure"
    support_count: int = 1
    merge_level: int = 0
    note_ids: tuple[str, ...] = ()


#: What a patch consists of; the same throughout a run.
Item = TypeVar("Item", Edit, Suggestion, SkillCandidate)


def as_json(edit: Edit | Suggestion | SkillCandidate) -> dict[str, object]:
    """How a proposed edit is shown to the optimizer."""
    told = asdict(edit)
    return told if edit.note_ids else {key: told[key] for key in told if key != "note_ids"}


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """A kind of failure that an analyst saw in a minibatch, and the tasks of that minibatch."""

    failure_type: str
    description: str
    count: int
    task_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patch(Generic[Item]):
    """Proposed edits, in application order."""

    edits: tuple[Item, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Reflection(Generic[Item]):
    """An analyst's answer about one minibatch.

    ``batch_size`` is the number of trajectories that it really saw, ``task_ids`` whose they were.
    ``notes`` are reminders of rules that the skill has and that were not followed. ``refused``
    tells why the guard dropped proposals.
    """

    source_type: Source
    patch: Patch[Item]
    task_ids: tuple[str, ...]
    batch_size: int
    failure_patterns: tuple[FailurePattern, ...] = ()
    success_patterns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


# Payloads: how the edits of each update mode are spelt in the optimizer's replies.


@dataclass(frozen=True, slots=True)
class Payload(Generic[Item]):
    """A list under ``key`` whose entries have a ``shape`` and become items."""

    key: str
    shape: type[_ItemShape]
    item: Callable[..., Item]

    def read(self, entry: object, source: Source, default_support: int, most: int) -> Item:
        """Return the item; support is within 1 and ``most``. Raises pydantic's error."""
        shape = self.shape.model_validate(entry)
        support = max(1, min(shape.support_count or default_support, most))
        stated: dict[str, Any] = {key: value for key, value in shape if value is not None}
        return self.item(
            **stated
            | {
                "source_type": shape.source_type or source,
                "support_count": support,
                "merge_level": shape.merge_level or 0,
                "note_ids": shape.note_ids,
            }
        )


def _edit(target: str = "", content: str = "", **stated: Any) -> Edit:
    return Edit(target=target, content=content, **stated)


EDITS = Payload("edits", _EditShape, _edit)
SUGGESTIONS = Payload("revise_suggestions", _SuggestionShape, Suggestion)
CANDIDATES = Payload("skill_candidates", _CandidateShape, SkillCandidate)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Positions in the edit pool, most important first, and the model's reasons."""

    indices: tuple[int, ...]
    reasoning: str = ""


def parse_analyst(
    payload: Payload[Item], text: str, source: Source, shown: int, *, notes: bool = False
) -> Reflection[Item]:
    """Read an analyst's reply on ``shown`` trajectories (at least 1) of unnamed tasks.

    No count exceeds ``shown``; an edit that states no ``support_count`` is taken to be backed by
    all of them. Where ``notes`` were asked for too, a reply may consist of them alone. Raises
    :class:`WireError`.
    """
    reply = _reply(text, payload.key, carries_notes=notes)
    failures = map(_FailureShape.model_validate, filter(_is_object, reply.failure_summary))
    successes = (clean(one).strip() for one in reply.success_patterns if isinstance(one, str))
    return Reflection(
        source_type=source,
        patch=_patch(payload, reply, source, default_support=shown, max_support=shown),
        task_ids=(),
        batch_size=shown,
        failure_patterns=tuple(
            FailurePattern(one.failure_type, one.description, min(one.count or 1, shown))
            for one in failures
            if one.failure_type or one.description
        ),
        success_patterns=tuple(filter(None, successes)),
        notes=reply.appendix_notes if notes else (),
    )


def parse_merge(payload: Payload[Item], text: str, source: Source = "failure") -> Patch[Item]:
    """Read the reply to a merge; ``source`` is the origin of edits that state none.

    Raises :class:`WireError`.
    """
    reply = _reply(text, payload.key)
    return _patch(payload, reply, source, default_support=1, max_support=MAX_COUNT)


def parse_ranking(text: str, pool_size: int, limit: int) -> Ranking:
    """Read the choice of at most ``limit`` among ``pool_size`` edits (0-based positions).

    Positions that do not exist and repetitions are left out. Raises :class:`WireError` if nothing
    valid is chosen.
    """
    reply = parse_as(_RankingShape, text)
    numbers = (whole_number(entry) for entry in reply.selected_indices)
    chosen = dict.fromkeys(n for n in numbers if n is not None and n < pool_size)
    if not chosen:
        raise WireError(
            "`selected_indices` names no edit of the pool: expected at least one whole number "
            f"from 0 to {pool_size - 1}."
        )
    return Ranking(tuple(chosen)[:limit], reply.reasoning)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _reply(text: str, key: str, *, carries_notes: bool = False) -> _ReplyShape:
    """Read a reply whose edits may stand at the top or under ``patch``."""
    reply = extract_json(text)
    if "patch" not in reply and key in reply:
        reply = {**reply, "patch": reply}
    if carries_notes and not reply.get("patch") and reply.get("appendix_notes"):
        reply = {**reply, "patch": {key: []}}
    return _validated(_ReplyShape, reply)


def _patch(
    payload: Payload[Item],
    reply: _ReplyShape,
    source: Source,
    *,
    default_support: int,
    max_support: int,
) -> Patch[Item]:
    key, extra = payload.key, reply.patch.model_extra or {}
    entries = extra.get(key)
    if not isinstance(entries, list):
        complaint = "Input should be a valid list" if key in extra else "Field required"
        raise WireError(f"{_WRONG_SHAPE}: `patch.{key}`: {complaint}.")
    if len(entries) > MAX_ENTRIES:
        raise WireError(f"`{key}` has {len(entries)} entries: expected at most {MAX_ENTRIES}.")
    items: list[Item] = []
    faults: list[ValidationError] = []
    for entry in entries:
        try:
            items.append(payload.read(entry, source, default_support, max_support))
        except ValidationError as error:
            faults.append(error)
    if faults and not items:
        raise WireError(f"No entry of `{key}` can be used; the first: {_explained(faults[0])}.")
    return Patch(tuple(items), reply.patch.reasoning)


# The shapes of the optimizer's replies as JSON Schemas, for servers that hold a reply to one.

_Schema = Mapping[str, object]

_TEXT: _Schema = {"type": "string"}
_COUNT: _Schema = {"type": "integer"}


def analyst(key: str, source: Source, *, notes: bool, wishes: bool) -> ReplySchema:
    """An analyst's reply, whose proposal has entries under ``key``.

    With ``notes`` there are reminders in it; with ``wishes`` entries name the notes they follow.
    """
    seen = (
        {"failure_summary": _list(_object(failure_type=_TEXT, count=_COUNT, description=_TEXT))}
        if source == "failure"
        else {"success_patterns": _list(_TEXT)}
    )
    entry = _object(**_ENTRIES[key], support_count=_COUNT, **_followed(wishes))
    patch = _object(reasoning=_TEXT, **{key: _list(entry)})
    reminders = {"appendix_notes": _list(_TEXT)} if notes else {}
    return ReplySchema("analysis", _object(batch_size=_COUNT, **seen, patch=patch, **reminders))


def merge(key: str, *, final: bool, wishes: bool) -> ReplySchema:
    """A merged patch with entries under ``key``; in the ``final`` one they know their level."""
    level = {"merge_level": _COUNT} if final else {}
    origin = {"type": "string", "enum": ["failure", "success"]}
    entry = _object(
        **_ENTRIES[key], support_count=_COUNT, source_type=origin, **level, **_followed(wishes)
    )
    return ReplySchema("merged_patch", _object(reasoning=_TEXT, **{key: _list(entry)}))


def ranking() -> ReplySchema:
    """A choice among numbered edits."""
    return ReplySchema("ranking", _object(reasoning=_TEXT, selected_indices=_list(_COUNT)))


def learning_rate() -> ReplySchema:
    """The number of changes to apply."""
    shape = _object(
        reasoning=_TEXT,
        learning_rate=_COUNT,
        confidence={"type": "string", "enum": ["low", "medium", "high"]},
        risk_notes=_list(_TEXT),
    )
    return ReplySchema("step_size", shape)


def rewrite() -> ReplySchema:
    """A rewritten document."""
    shape = _object(reasoning=_TEXT, change_summary=_list(_TEXT), new_skill=_TEXT)
    return ReplySchema("rewritten_skill", shape)


def reminders() -> ReplySchema:
    """A condensed appendix."""
    return ReplySchema("reminders", _object(appendix_notes=_list(_TEXT)))


def written(stage: str) -> ReplySchema:
    """The text that ``stage`` (``slow_update`` or ``meta_skill``) writes at an epoch's end."""
    return ReplySchema(stage, _object(**{"reasoning": _TEXT, f"{stage}_content": _TEXT}))


def _object(**properties: _Schema) -> _Schema:
    # What is reasoned comes first, as it is thought first.
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _followed(wishes: bool) -> Mapping[str, _Schema]:
    return {"note_ids": _list(_TEXT)} if wishes else {}


_OPERATIONS: _Schema = {
    "type": "string",
    "enum": ["append", "insert_after", "replace", "delete"],
}
#: By the key under which they stand: what entries say of themselves.
_ENTRIES: Mapping[str, Mapping[str, _Schema]] = {
    "edits": {"op": _OPERATIONS, "target": _TEXT, "content": _TEXT},
    "revise_suggestions": {
        "type": _TEXT,
        "title": _TEXT,
        "motivation": _TEXT,
        "instruction": _TEXT,
        "priority_hint": _TEXT,
    },
    "skill_candidates": {
        "title": _TEXT,
        "change_summary": _list(_TEXT),
        "new_skill": _TEXT,
    },
}
