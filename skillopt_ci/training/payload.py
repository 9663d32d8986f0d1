"""Payloads: how the edits of each update mode are spelt in the optimizer's replies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from skillopt_ci.skill.edits import Edit, Source
from skillopt_ci.training.patch import Item, SkillCandidate, Suggestion
from skillopt_ci.training.wire_shape import CandidateShape, EditShape, SuggestionShape


@dataclass(frozen=True, slots=True)
class Payload(Generic[Item]):
    """A list under ``key`` whose entries ``read`` turns into edits.

    ``read`` takes the entry, the source if it states none, its support if it states none, and the
    most support that it may state. It raises pydantic's ``ValidationError``.
    """

    key: str
    read: Callable[[object, Source, int, int], Item]


def _edit(entry: object, source: Source, default_support: int, max_support: int) -> Edit:
    shape = EditShape.model_validate(entry)
    backing = shape.provenance(source, default_support, max_support)
    return Edit(shape.op, shape.target or "", shape.content or "", **backing)


def _suggestion(
    entry: object, source: Source, default_support: int, max_support: int
) -> Suggestion:
    shape = SuggestionShape.model_validate(entry)
    return Suggestion(
        type=shape.type,
        title=shape.title,
        instruction=shape.instruction,
        motivation=shape.motivation,
        priority_hint=shape.priority_hint,
        **shape.provenance(source, default_support, max_support),
    )


def _candidate(
    entry: object, source: Source, default_support: int, max_support: int
) -> SkillCandidate:
    shape = CandidateShape.model_validate(entry)
    return SkillCandidate(
        new_skill=shape.new_skill,
        title=shape.title,
        change_summary=shape.change_summary,
        **shape.provenance(source, default_support, max_support),
    )


EDITS = Payload("edits", _edit)
SUGGESTIONS = Payload("revise_suggestions", _suggestion)
CANDIDATES = Payload("skill_candidates", _candidate)
