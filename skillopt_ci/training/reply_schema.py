"""The shapes of the optimizer's replies as JSON Schemas, for servers that hold a reply to one.

They say what the prompts ask for, in the strict form that all such servers understand: every key
there, none besides, nothing but plain types. Reading is more lenient (``wire.py``).
"""

from collections.abc import Mapping

from skillopt_ci.model.types import ReplySchema
from skillopt_ci.skill.edits import Source

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
