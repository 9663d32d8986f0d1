"""What analysts propose: a patch is a set of edits with the reasoning behind them.

What an edit is depends on the update mode: a change of some place, a suggestion for whoever
rewrites the document, or a whole new document.
"""

from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from skillopt_ci.skill.edits import Edit, Source


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

    ``batch_size`` is the number of trajectories that it really saw, ``task_ids`` which ones.
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
