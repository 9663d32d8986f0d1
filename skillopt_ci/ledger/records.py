"""What the skills branch remembers, in ``.skillopt/<run>/``: state, history, evidence per step.

These files are read back from a branch that people can push to, so they are validated. Nothing
in them depends on the clock or on which calls were answered from the cache: an interrupted step
and an uninterrupted one write the same bytes.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from skillopt_ci.model.client import Usage
from skillopt_ci.rollout.outcome import FAILURE_BELOW, Status

#: Version of these files; a newer one is refused rather than misread.
RECORD_VERSION = 1


class Record(BaseModel):
    """Immutable; unknown keys of a later version are an error, not silently lost."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Measurement(Record):
    """One skill text on the selection tasks.

    ``score`` is in the gate's metric; ``tasks`` maps each measured task to (hard, soft);
    ``errors`` names the tasks that infrastructure or the grader kept from being measured.
    """

    hard: float
    soft: float
    score: float
    tasks: dict[str, tuple[float, float]] = Field(default_factory=dict)
    errors: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of measured tasks."""
        return len(self.tasks)


class Snapshot(Record):
    """A skill text that was measured: ``origin`` says where it came from, in words."""

    sha256: str
    step: int
    origin: str
    measurement: Measurement


class TaskOutcome(Record):
    """One training attempt."""

    id: str
    status: Status
    hard: float
    soft: float
    reason: str = ""
    task_type: str = ""

    @property
    def failed(self) -> bool:
        """Whether the model is known to have failed the task."""
        return self.status.measured and self.hard < FAILURE_BELOW


class RolloutRecord(Record):
    """The training rollouts of a step."""

    hard: float
    soft: float
    n: int
    errors: int
    tasks: tuple[TaskOutcome, ...] = ()


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

    @property
    def applied(self) -> bool:
        """Whether it changed the document."""
        return self.status.startswith("applied")


class UsageRecord(Record):
    """Calls, tokens and cost; ``cost_usd`` is null when a price is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0
    estimated: bool = False

    @classmethod
    def of(cls, usage: Usage) -> "UsageRecord":
        """The record of ``usage``."""
        return cls(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cached_tokens=usage.cached_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            cost_usd=None if usage.cost_usd is None else round(usage.cost_usd, 9),
            estimated=usage.estimated,
        )

    def usage(self) -> Usage:
        """The value that was recorded."""
        return Usage(**self.model_dump())


class ProposalRecord(Record):
    """How a step's candidate came about: written with the candidate, before it is measured."""

    rollout: RolloutRecord
    patterns: tuple[PatternRecord, ...] = ()
    n_failure_patches: int
    n_success_patches: int
    n_edits_merged: int
    edit_budget: int
    selection: str
    """How edits were selected: `untouched`, `ranked` or `truncated`."""
    reasoning: str = ""
    edits: tuple[EditRecord, ...] = ()
    diff: str = ""
    """What the applied edits did to the document, as a unified diff."""
    skill_before: str
    skill_after: str
    """SHA-256 of the skill before and after the edits."""
    config_sha256: str
    usage: dict[str, UsageRecord] = Field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether the candidate differs from the skill that it was made from."""
        return self.skill_before != self.skill_after


Action = Literal["accept_new_best", "accept", "reject", "skip_no_patches"]


class Decision(Record):
    """The gate's verdict, with its arithmetic in words."""

    action: Action
    reason: str
    metric: str
    score_before: float
    score_after: float | None
    """None when nothing was measured: no edit was proposed, or none changed the text."""
    measurement: Measurement | None = None
    compared: int = 0
    """Number of tasks that both sides measured."""
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    measured_under: str = ""
    """Fingerprint of what the scores depend on besides the skill; see :class:`State`."""
    reused_from: int | None = None
    """The step that had measured the same text under the same conditions."""


class StepRecord(Record):
    """``steps/NNNN.json``: all the evidence of one step."""

    version: int = RECORD_VERSION
    step: int
    epoch: int
    step_in_epoch: int
    simulated: bool
    proposal: ProposalRecord
    decision: Decision | None = None
    """None while the candidate is in flight."""
    usage: UsageRecord = UsageRecord()

    @property
    def merged(self) -> bool:
        """Whether the candidate stayed."""
        return self.decision is not None and self.decision.action.startswith("accept")


class HistoryEntry(Record):
    """One line of ``history.jsonl``: what happened, in the order in which it happened.

    ``kind`` is ``start`` (first measurement), ``step``, ``measure`` (the skill, the tasks or the
    configuration changed under way and the current skill was measured anew) or ``set_aside`` (a
    candidate whose ground had changed).
    """

    kind: Literal["start", "step", "measure", "set_aside"]
    step: int
    epoch: int
    action: str
    reason: str = ""
    score_before: float | None = None
    score_after: float | None = None
    best_score: float | None = None
    tasks: int = 0
    edits: int = 0
    skill_sha256: str = ""
    """The current skill after this entry."""
    candidate_sha256: str = ""
    words: int = 0
    """Length of the current skill."""
    config_sha256: str = ""
    usage: UsageRecord = UsageRecord()
    simulated: bool = False


class State(Record):
    """``state.json``: where training stands.

    ``measured_under`` is the fingerprint of everything that a score depends on besides the skill
    (target model, prompts, scorers, selection tasks, metric): scores are compared only under the
    same one. ``usage`` is the whole run's so far.
    """

    version: int = RECORD_VERSION
    run: str
    skill: str
    step: int
    epoch: int
    current: Snapshot
    best: Snapshot
    measured_under: str
    config_sha256: str
    usage: UsageRecord = UsageRecord()
    simulated: bool = False
