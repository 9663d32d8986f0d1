"""Replies of the optimizer model: parse tolerantly, validate strictly.

Unusable edits are dropped; an unusable reply raises WireError, shown to the model on its retry.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from skillopt_ci.errors import SkilloptError
from skillopt_ci.ledger.evidence import PatternRecord
from skillopt_ci.model.types import ReplySchema
from skillopt_ci.skill.edits import Edit, Source, Word, clean
from skillopt_ci.skill.regions import unprotected
from skillopt_ci.util import repaired

#: Each broken object may cost a pass over the whole reply.
MAX_BROKEN_OBJECTS = 30
#: A longer list means that the model is looping.
MAX_ENTRIES = 1_000

_OPENING = re.compile(r"""\{(?=\s*["'])""")
_TOKEN = re.compile(r"""\"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\],]""", re.DOTALL)
#: The latest possible end of a broken object: a fence, or another object at the start of a line.
_LIMIT = re.compile(r"""\n(?:[ \t]*```|(?=\{\s*["']))""")
_FENCE_BEFORE = re.compile(r"```[ \t]*\w*\s*\Z")  # in the 80 characters before an object
_NO_VALUE = re.compile(r"""["']\s*+:\s*+(?:[,}\]]|\"{3})""")
#: A word, and its colon if it is a key. Comments, escapes and constants match, too, without a word.
_WORD = re.compile(
    r"""(?mx)  ^[ \t]*(?://|\#).* | (?://|\#)[^"\n]{0,200}$ | /\*[^*]*\*/
    | \\(?:u[\da-fA-F]{4} | x[\da-fA-F]{2} | ["\\/bfnrt]) | \b(?:None|True|False)\b
    | ([^\W\d_]+) (?=\\?["'“”]?\s*+(:?))"""
)
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
#: Raw line breaks inside strings are the most common mistake; ``strict=False`` accepts them.
_DECODER = json.JSONDecoder(strict=False)


class WireError(SkilloptError):
    """An unusable reply; the message can be shown to the model."""


def extract_json(text: str) -> dict[str, object]:
    """The one JSON object in ``text``, or the one that is fenced. Raises :class:`WireError`."""
    body = _THOUGHT.sub("", text)
    if not (objects := list(_objects(body))):
        raise WireError("The reply holds no complete JSON object. Reply with exactly one.")
    fenced = [
        value for start, value in objects if _FENCE_BEFORE.search(body, max(0, start - 80), start)
    ]
    choice = fenced if len(fenced) == 1 else [value for _, value in objects]
    if any(value != choice[0] for value in choice):
        raise WireError(f"The reply holds {len(choice)} JSON objects. Reply with exactly one.")
    return choice[0]


def _objects(text: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Each outermost non-empty object and its start; repairs what is invalid but complete."""
    position, tries = 0, MAX_BROKEN_OBJECTS
    while tries > 0 and (opening := _OPENING.search(text, position)):
        start = opening.start()
        value: object = None
        try:
            value, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            limit, tries = _LIMIT.search(text, start), tries - 1
            position = limit.start() if limit else len(text)
            if end := _end_of_object(text, start, position):
                position = end
                if not _NO_VALUE.search(text, start, end):
                    value = repaired(text[start:end])
                    # where quotes lack escapes, a repair may lose words, or make them keys
                    told = json.dumps(value) + json.dumps(value, ensure_ascii=False)
                    if not {*_WORD.findall(text, start, end)} <= {*_WORD.findall(told), ("", "")}:
                        value = None
        if isinstance(value, dict) and value:
            yield start, value


def _end_of_object(text: str, start: int, limit: int) -> int | None:
    depth = 0
    for token in _TOKEN.finditer(text, start, limit):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return None


# The shapes of the optimizer model's replies: strict where needed, lenient elsewhere.

#: Counts in a reply are capped here.
MAX_COUNT = 100_000

#: Python reads no number of more digits.
_WHOLE_NUMBER = re.compile(r"\s*\+?(\d{1,4300})(?:\.0*)?\s*", re.ASCII)
_DICTIONARY = re.compile(r"(?:valid )?dictionary(?: or an instance of \w+)?$")


def whole_number(value: object) -> int | None:
    """Read a number or text as a whole number from 0 to ``MAX_COUNT``; None for anything else."""
    match = _WHOLE_NUMBER.fullmatch(str(value)) if isinstance(value, int | float | str) else None
    return min(int(match[1]), MAX_COUNT) if match else None


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
    """Read notes from a list or a single note; each is a text or an object that holds one."""
    return _notes(
        [
            entry.get("note") or entry.get("content") if isinstance(entry, dict) else entry
            for entry in (value if isinstance(value, list) else [value])
        ]
    )


_Document = Annotated[Word, AfterValidator(_with_a_body)]
_Note = Annotated[str, BeforeValidator(_text_or_nothing)]
_Notes = Annotated[tuple[str, ...], BeforeValidator(_notes)]
_Reminders = Annotated[tuple[str, ...], BeforeValidator(_reminders)]
_Entries = Annotated[
    list[object],
    BeforeValidator(lambda given: given[:MAX_ENTRIES] if isinstance(given, list) else []),
]


class Shape(BaseModel, extra="ignore", frozen=True):
    """A JSON object in a reply; unknown keys are ignored."""


class RewriteShape(Shape):
    reasoning: _Note = ""
    change_summary: _Notes = ()
    new_skill: _Document


class LearningRateShape(Shape):
    learning_rate: object  # how many changes the optimizer wants applied, not yet parsed
    reasoning: _Note = ""
    confidence: _Note = ""
    risk_notes: _Notes = ()


class _ReplyShape(Shape):
    patch: dict[str, object]
    failure_summary: _Entries = []
    appendix_notes: _Reminders = ()


class RemindersShape(Shape):
    appendix_notes: _Reminders


class _RankingShape(Shape):
    selected_indices: list[object]
    reasoning: _Note = ""


_WRONG_SHAPE = "The reply does not have the agreed shape"
_Model = TypeVar("_Model", bound=BaseModel)


def parse_as(model: type[_Model], text: str) -> _Model:
    return _validated(model, extract_json(text))


def _validated(model: type[_Model], reply: object) -> _Model:
    try:
        return model.model_validate(reply)
    except ValidationError as error:
        raise WireError(f"{_WRONG_SHAPE}: {_explained(error)}.") from error


def _explained(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    message = _DICTIONARY.sub("JSON object", first["msg"].removeprefix("Value error, "))
    return f"`{key}`: {message}" if key else message


@dataclass(frozen=True, slots=True)
class Suggestion:
    type: _Note
    title: _Note
    instruction: Word
    motivation: _Note = ""
    priority_hint: _Note = ""
    source_type: Source = "failure"
    support_count: int = 1
    merge_level: int = 0
    note_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """A whole document to replace the skill, with a summary of its changes."""

    new_skill: _Document
    title: _Note = ""
    change_summary: _Notes = ()
    source_type: Source = "failure"
    support_count: int = 1
    merge_level: int = 0
    note_ids: tuple[str, ...] = ()


#: The kind of change in a patch; the same throughout a run.
Item = TypeVar("Item", Edit, Suggestion, SkillCandidate)


def as_json(edit: Edit | Suggestion | SkillCandidate) -> dict[str, object]:
    return {key: value for key, value in asdict(edit).items() if value or key != "note_ids"}


@dataclass(frozen=True, slots=True)
class Patch(Generic[Item]):
    edits: tuple[Item, ...] = ()
    reasoning: str = ""
    #: Whether the optimizer listed the edits by importance, as it does when it merges patches.
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Reflection(Generic[Item]):
    """An analyst's result for one minibatch; ``refused`` says what the guard dropped and why."""

    source_type: Source
    patch: Patch[Item]
    failure_patterns: tuple[PatternRecord, ...] = ()
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


# Payloads: how replies represent the edits of each update mode.

_Schema = Mapping[str, object]

_TEXT: _Schema = {"type": "string"}
_COUNT: _Schema = {"type": "integer"}


def _list(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


_TEXTS = _list(_TEXT)


@dataclass(frozen=True, slots=True)
class Payload(Generic[Item]):
    """A list of items under ``key``; ``schema`` describes the fields of an item."""

    key: str
    item: TypeAdapter[Item] = field(repr=False)
    schema: Mapping[str, _Schema]

    def read(self, entry: object, source: Source, default_support: int, most: int) -> Item:
        """Return the item, its support clamped to 1..``most``; raises pydantic's error."""
        if isinstance(entry, dict):
            stated, support = entry.get("source_type"), whole_number(entry.get("support_count"))
            entry = {
                "type": "",  # a suggestion needs nothing but its instruction
                "title": "",
                **entry,
                "source_type": stated if stated in get_args(Source) else source,
                "support_count": max(1, min(support or default_support, most)),
                "merge_level": whole_number(entry.get("merge_level")) or 0,
                "note_ids": _notes(entry.get("note_ids")),
            }
        return self.item.validate_python(entry)


def _edit(entry: object, read: ValidatorFunctionWrapHandler) -> Edit:
    """Reject a missing ``content``: otherwise a replacement would delete its target."""
    if isinstance(entry, dict):
        entry = {key: value for key, value in entry.items() if key == "op" or value is not None}
    edit: Edit = read(entry)
    if edit.op != "delete" and isinstance(entry, dict) and "content" not in entry:
        raise ValueError("`content` is missing")
    return edit


EDITS = Payload(
    "edits",
    TypeAdapter[Edit](Annotated[Edit, WrapValidator(_edit)]),
    {
        "op": {"type": "string", "enum": ["append", "insert_after", "replace", "delete"]},
        "target": _TEXT,
        "content": _TEXT,
    },
)
SUGGESTIONS = Payload(
    "revise_suggestions",
    TypeAdapter(Suggestion),
    dict.fromkeys(("type", "title", "motivation", "instruction", "priority_hint"), _TEXT),
)
CANDIDATES = Payload(
    "skill_candidates",
    TypeAdapter(SkillCandidate),
    {"title": _TEXT, "change_summary": _TEXTS, "new_skill": _TEXT},
)


def parse_analyst(
    payload: Payload[Item], text: str, source: Source, shown: int, *, notes: bool = False
) -> Reflection[Item]:
    """Read an analyst's reply about ``shown`` (at least 1) trajectories.

    Counts are capped at ``shown``, the default of ``support_count``. If ``notes`` were requested,
    a reply may consist of notes only. Raises :class:`WireError`.
    """
    reply = _reply(text, payload.key, carries_notes=notes)
    patterns = (_pattern(one, shown) for one in reply.failure_summary if isinstance(one, dict))
    return Reflection(
        source_type=source,
        patch=_patch(payload, reply.patch, source, default_support=shown, max_support=shown),
        failure_patterns=tuple(one for one in patterns if one.description and source == "failure"),
        notes=reply.appendix_notes if notes else (),
    )


def _pattern(entry: Mapping[str, object], shown: int) -> PatternRecord:
    named = (_text_or_nothing(entry.get(key)) for key in ("failure_type", "description"))
    count = min(whole_number(entry.get("count")) or 1, shown)
    return PatternRecord(description=": ".join(filter(None, named)), count=count)


def parse_merge(payload: Payload[Item], text: str, source: Source = "failure") -> Patch[Item]:
    """Read a merge's reply; edits without a source get ``source``. Raises WireError."""
    patch = _reply(text, payload.key).patch
    return _patch(payload, patch, source, default_support=1, max_support=MAX_COUNT)


def parse_ranking(text: str, pool_size: int, limit: int) -> tuple[tuple[int, ...], str]:
    """At most ``limit`` distinct valid indices from 0, and the reason. Raises WireError if none."""
    reply = parse_as(_RankingShape, text)
    numbers = (whole_number(entry) for entry in reply.selected_indices)
    chosen = dict.fromkeys(n for n in numbers if n is not None and n < pool_size)
    if not chosen:
        raise WireError(
            "`selected_indices` names no edit of the pool: expected at least one whole number "
            f"from 0 to {pool_size - 1}."
        )
    return tuple(chosen)[:limit], reply.reasoning


def _reply(text: str, key: str, *, carries_notes: bool = False) -> _ReplyShape:
    """Read a reply that has its edits at the top level or under ``patch``."""
    reply = extract_json(text)
    if "patch" not in reply and key in reply:
        reply = {**reply, "patch": reply}
    if carries_notes and not reply.get("patch") and reply.get("appendix_notes"):
        reply = {**reply, "patch": {key: []}}
    return _validated(_ReplyShape, reply)


def _patch(
    payload: Payload[Item],
    patch: Mapping[str, object],
    source: Source,
    *,
    default_support: int,
    max_support: int,
) -> Patch[Item]:
    key = payload.key
    entries = patch.get(key)
    if not isinstance(entries, list):
        complaint = "Input should be a valid list" if key in patch else "Field required"
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
    return Patch(tuple(items), _text_or_nothing(patch.get("reasoning")))


# The optimizer's replies as JSON Schemas, for servers with structured output.


def _object(**properties: _Schema) -> _Schema:
    # callers put the reasoning first, so that the model reasons before it decides
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


RANKING = ReplySchema("ranking", _object(reasoning=_TEXT, selected_indices=_list(_COUNT)))
LEARNING_RATE = ReplySchema(
    "step_size",
    _object(
        reasoning=_TEXT,
        learning_rate=_COUNT,
        confidence={"type": "string", "enum": ["low", "medium", "high"]},
        risk_notes=_TEXTS,
    ),
)
REWRITE = ReplySchema(
    "rewritten_skill", _object(reasoning=_TEXT, change_summary=_TEXTS, new_skill=_TEXT)
)
REMINDERS = ReplySchema("reminders", _object(appendix_notes=_TEXTS))
#: The texts written at an epoch's end.
WRITTEN = {
    stage: ReplySchema(stage, _object(**{"reasoning": _TEXT, f"{stage}_content": _TEXT}))
    for stage in ("slow_update", "meta_skill")
}


def analyst(payload: Payload[Any], source: Source, *, notes: bool, wishes: bool) -> ReplySchema:
    """An analyst's reply; ``notes`` adds reminders, ``wishes`` the ids of reviewers' notes."""
    seen = (
        {"failure_summary": _list(_object(failure_type=_TEXT, count=_COUNT, description=_TEXT))}
        if source == "failure"
        else {"success_patterns": _TEXTS}
    )
    patch = _patch_schema(payload, {}, wishes=wishes)
    reminders = {"appendix_notes": _TEXTS} if notes else {}
    return ReplySchema("analysis", _object(batch_size=_COUNT, **seen, patch=patch, **reminders))


def merge(payload: Payload[Any], *, final: bool, wishes: bool) -> ReplySchema:
    """A merged patch; entries of the ``final`` one have a merge level."""
    source = {"source_type": {"type": "string", "enum": ["failure", "success"]}}
    level = {"merge_level": _COUNT} if final else {}
    return ReplySchema("merged_patch", _patch_schema(payload, source | level, wishes=wishes))


def _patch_schema(payload: Payload[Any], more: Mapping[str, _Schema], *, wishes: bool) -> _Schema:
    followed = {"note_ids": _TEXTS} if wishes else {}
    entry = _object(**payload.schema, support_count=_COUNT, **more, **followed)
    return _object(reasoning=_TEXT, **{payload.key: _list(entry)})
