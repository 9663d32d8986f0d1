"""What the work of a step found: measurements, rollouts, and what the optimizer proposed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import not_
from typing import Annotated, Literal

from pydantic import BaseModel, Field, JsonValue, PlainSerializer, PlainValidator

from skillopt_ci.model.types import Account, Accounts, Usage, by_stage, summed
from skillopt_ci.rollout.types import FAILURE_BELOW, Status


class Record(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """Immutable; unknown keys of a later version are an error, not silently lost."""


class AccountRecord(Record):
    """What one role consumed in one stage."""

    role: str
    stage: str
    usage: Usage


def as_recorded(usage: Usage) -> Usage:
    """As it is recorded: sums of floats differ in their last digits with the order of calls."""
    return usage if usage.cost_usd is None else replace(usage, cost_usd=round(usage.cost_usd, 9))


def booked(*accounts: Accounts) -> dict[Account, Usage]:
    """All ``accounts`` together, as they are recorded: in the order of roles and stages."""
    rows = (row for one in accounts for row in one.items())
    return {account: as_recorded(usage) for account, usage in summed(rows).items()}


def by_stage_as_recorded(accounts: Accounts) -> dict[str, Usage]:
    return {stage: as_recorded(usage) for stage, usage in by_stage(accounts).items()}


def _read_accounts(given: Accounts | Iterable[object]) -> dict[Account, Usage]:
    if isinstance(given, Mapping):
        return booked(given)
    rows = map(AccountRecord.model_validate, given if isinstance(given, Iterable) else (given,))
    return {Account(row.role, row.stage): row.usage for row in rows}


def _write_accounts(accounts: Accounts) -> list[AccountRecord]:
    return [
        AccountRecord(role=account.role, stage=account.stage, usage=usage)
        for account, usage in accounts.items()
    ]


#: Usage by role and stage; a list in JSON.
AccountsField = Annotated[
    Accounts,
    PlainValidator(_read_accounts, json_schema_input_type=tuple[AccountRecord, ...]),
    PlainSerializer(_write_accounts),
]


# Fields that came later are left out at their default: a record without errors stays as it was.
class Measurement(Record):
    """One skill text on the selection tasks; ``score`` is in the gate's metric.

    ``tasks`` maps each measured task to (hard, soft), the means of its measured attempts;
    ``errors`` names those that infrastructure or the grader kept from being measured. ``density``
    is the text's share of leading words, where that counts, and ``words`` its length as the target
    reads it. ``planned`` is the number of tasks that were to be measured, where measuring stopped
    before (0 elsewhere): such a score is partial, and compares with no other. ``pessimistic_hard``
    and ``pessimistic_soft`` count what was not measured as 0 (None where everything was),
    ``unmeasured`` has the reasons, each with a number of attempts. ``limits`` counts the attempts
    that each limit ended. ``caveat`` is what the computers of the attempts did not guarantee.
    """

    hard: float
    soft: float
    score: float
    density: float = 0.0
    words: int = 0
    tasks: dict[str, tuple[float, float]] = Field(default_factory=dict)
    errors: tuple[str, ...] = ()
    planned: int = Field(0, exclude_if=not_)
    attempts: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    """Rounds of attempts that a task's scores are the mean of, where there were several."""
    first_attempt: int = Field(0, exclude_if=not_)
    """Number of the first round that counts: earlier ones were put aside."""
    attempts_each: int = Field(1, exclude_if=lambda each: each == 1)
    """Attempts at each task in one round."""
    pessimistic_hard: float | None = Field(None, exclude_if=lambda score: score is None)
    pessimistic_soft: float | None = Field(None, exclude_if=lambda score: score is None)
    unmeasured: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    limits: dict[str, int] = Field(default_factory=dict, exclude_if=not_)
    caveat: str = Field("", exclude_if=not_)

    @property
    def partial(self) -> bool:
        return self.planned > 0

    @property
    def whole(self) -> "Measurement | None":
        """Itself, unless it is of some tasks alone, which are the hardest."""
        return None if self.partial else self

    @property
    def asked(self) -> frozenset[str]:
        return frozenset((*self.tasks, *self.errors))

    @property
    def hard_scores(self) -> dict[str, float]:
        return {task: hard for task, (hard, _) in self.tasks.items()}

    @property
    def n(self) -> int:
        return len(self.tasks)


class TaskOutcome(Record):
    """One training attempt."""

    id: str
    status: Status
    hard: float
    soft: float
    reason: str = ""
    task_type: str = ""
    attempt: int = 0
    """Which attempt under this skill it was, from 0."""

    @property
    def failed(self) -> bool:
        return self.status.measured and self.hard < FAILURE_BELOW


class RolloutRecord(Record):
    """The training rollouts of a step."""

    hard: float
    soft: float
    n: int
    errors: int
    tasks: tuple[TaskOutcome, ...] = ()

    @property
    def measured(self) -> int:
        """The number of tasks, each of which may have had several attempts."""
        return len({one.id for one in self.tasks if one.status.measured}) or self.n


class BatchRecord(Record):
    """One batch of a step: its seed, its rollouts, the patches made from them."""

    seed: int
    hard: float
    soft: float
    n: int
    n_failure_patches: int
    n_success_patches: int


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


class UnusableReply(Record):
    """A question to the optimizer without a reply that could be used."""

    reason: str
    """Why the last reply could not be used."""
    beginning: str = ""
    """How it began, if there was a reply."""


class UnusableReplies(Record):
    """Questions about minibatches, a learning rate or a new document without a usable reply."""

    asked: int
    """Questions about minibatches, all together, and others that got no usable reply."""
    replies: tuple[UnusableReply, ...]
    """One for each question without a usable reply."""

    @property
    def all(self) -> bool:
        return len(self.replies) == self.asked


class LearningRateRecord(Record):
    """How many changes the optimizer wanted applied: ``raw``, of the ``available`` ones.

    If ``clamped``, it wanted more; if ``fallback``, it gave no usable answer: nothing is applied.
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

    ``proposed`` counts the edits that follow it, ``taken`` those of them in the candidate.
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
    race: JsonValue = None
    """Retired: how `edits` were tried against each other."""
    outcome: Literal["updated", "skip_no_rewrite"] = "updated"
    refused: str = ""
    """Why the guard refused the rewritten document, if it did."""
    screened: tuple[str, ...] = ()
    """Why the guard dropped suggestions and documents of single analysts."""
    unusable: UnusableReplies | None = Field(None, exclude_if=not_)
    """The analysts' replies that could not be used, if there were any."""
    diff: str = ""
    """What the update did to the document, as a unified diff."""
    skill_before: str
    skill_after: str
    """SHA-256 of the skill before and after the edits."""
    skill_attempted: str = ""
    """SHA-256 of the skill that the batches were attempted under, if that was an older one."""
    config_sha256: str
    usage: dict[str, Usage] = Field(default_factory=dict)

    @property
    def attempted_under(self) -> str:
        return self.skill_attempted or self.skill_before

    @property
    def changed(self) -> bool:
        return self.skill_before != self.skill_after

    @property
    def body_changed(self) -> bool:
        return self.changed and not (self.notes is not None and self.notes.alone)

    @property
    def applied_edits(self) -> tuple[EditRecord, ...]:
        return tuple(edit for edit in self.edits if edit.applied)

    @property
    def change_count(self) -> int:
        if self.mode == "patch":
            return len(self.applied_edits)
        return max(1, len(self.suggestions)) if self.body_changed else 0
