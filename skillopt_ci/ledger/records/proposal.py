"""How a candidate came about."""

from typing import Literal

from pydantic import Field

from skillopt_ci.ledger.records.base import Record
from skillopt_ci.ledger.records.race import RaceRecord
from skillopt_ci.ledger.records.rollout import BatchRecord, RolloutRecord
from skillopt_ci.ledger.records.usage import UsageRecord


class PatternRecord(Record):
    """A failure pattern that an analyst named, with the tasks that it had before it."""

    description: str
    count: int
    task_ids: tuple[str, ...] = ()


class EditRecord(Record):
    """An edit of the selected patch and what became of it."""

    op: str
    target: str = ""
    content: str = ""
    source_type: str = "failure"
    support_count: int = 1
    status: str
    reason: str = ""
    """Why the guard refused it, if it did."""
    note_ids: tuple[str, ...] = ()
    """The reviewers' notes that it follows."""

    @property
    def applied(self) -> bool:
        """Whether it changed the document."""
        return self.status.startswith("applied")


class SuggestionRecord(Record):
    """A suggestion that the optimizer was given to rewrite the document by."""

    type: str
    title: str
    instruction: str
    motivation: str = ""
    priority_hint: str = ""
    source_type: str = "failure"
    support_count: int = 1


class LearningRateRecord(Record):
    """How many changes the optimizer wanted applied: ``raw``, of the ``available`` ones.

    ``clamped`` says that it wanted more than there are, ``fallback`` that it gave no usable answer
    (``raw`` is null and nothing is applied).
    """

    learning_rate: int
    raw: int | None = None
    available: int
    clamped: bool = False
    fallback: bool = False
    reasoning: str = ""
    confidence: str = ""
    risk_notes: tuple[str, ...] = ()


class RefusedNote(Record):
    """A note that the guard refused, and why."""

    note: str
    reason: str


class NotesRecord(Record):
    """The reminders of a step: how many analysts ``proposed``, which ones are new."""

    proposed: int
    added: tuple[str, ...] = ()
    refused: tuple[RefusedNote, ...] = ()
    appendix: tuple[str, ...] = ()
    """All notes of the candidate."""
    consolidated_from: int = 0
    """How many notes were condensed into `appendix`; 0 if none were."""
    alone: bool = False
    """The candidate differs from the skill by its notes only."""


class ReviewerNoteRecord(Record):
    """A reviewer's note that the analysts of a step were given.

    ``proposed`` counts the edits that analysts proposed to follow it, ``taken`` those of them that
    went into the candidate.
    """

    id: str
    author: str
    text: str
    path: str = ""
    line: int | None = None
    url: str = ""
    proposed: int = 0
    taken: int = 0


class ProposalRecord(Record):
    """How a step's candidate came about: written with the candidate, before it is measured."""

    rollout: RolloutRecord
    batches: tuple[BatchRecord, ...] = ()
    """The batches that `rollout` joins."""
    patterns: tuple[PatternRecord, ...] = ()
    n_failure_patches: int
    n_success_patches: int
    n_edits_merged: int
    mode: str = "patch"
    """The update mode, by which `edits`, `suggestions` or only `change_summary` is there."""
    edit_budget: int | None
    """Most changes that could be selected; null is no limit."""
    learning_rate: LearningRateRecord | None = None
    """How the optimizer came to `edit_budget`, if the choice was its own."""
    selection: str
    """How edits were selected: `untouched`, `ranked` or `truncated`."""
    reasoning: str = ""
    edits: tuple[EditRecord, ...] = ()
    suggestions: tuple[SuggestionRecord, ...] = ()
    change_summary: tuple[str, ...] = ()
    """What a rewritten document says of itself."""
    notes: NotesRecord | None = None
    """Reminders for the appendix, where they were asked for and there were any."""
    reviewer_notes: tuple[ReviewerNoteRecord, ...] = ()
    """What reviewers asked for, where they did."""
    race: RaceRecord | None = None
    """How `edits` were tried against each other, where they were."""
    outcome: Literal["updated", "skip_no_rewrite"] = "updated"
    refused: str = ""
    """Why the guard refused the rewritten document, if it did."""
    screened: tuple[str, ...] = ()
    """Why the guard dropped suggestions and documents of single analysts."""
    diff: str = ""
    """What the update did to the document, as a unified diff."""
    skill_before: str
    skill_after: str
    """SHA-256 of the skill before and after the edits."""
    skill_attempted: str = ""
    """SHA-256 of the skill that the batches were attempted under, if that was an older one."""
    config_sha256: str
    usage: dict[str, UsageRecord] = Field(default_factory=dict)

    @property
    def attempted_under(self) -> str:
        """SHA-256 of the skill that the batches were attempted under."""
        return self.skill_attempted or self.skill_before

    @property
    def changed(self) -> bool:
        """Whether the candidate differs from the skill that it was made from."""
        return self.skill_before != self.skill_after

    @property
    def body_changed(self) -> bool:
        """Whether it differs by more than its notes."""
        return self.changed and not (self.notes is not None and self.notes.alone)
