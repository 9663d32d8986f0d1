"""What the skills branch remembers, in ``.skillopt/<run>/``: state, history, evidence per step.

The files are validated when they are read back. Nothing in them depends on the clock or the cache:
an interrupted step and an uninterrupted one write the same bytes.
"""

from operator import not_
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field, JsonValue

from skillopt_ci.ledger.evidence import AccountsField, Measurement, ProposalRecord, Record
from skillopt_ci.model.types import Usage
from skillopt_ci.sanitize import MARKERS, one_line
from skillopt_ci.text import within_noise

#: Version of these files; a newer one is refused rather than misread.
RECORD_VERSION = 1


class Snapshot(Record):
    """A skill text that was measured: ``origin`` says where it came from, in words."""

    sha256: str
    step: int
    origin: str
    measurement: Measurement


class GateRecord(Record):
    """How a candidate was compared with the current skill, and what that took.

    ``difference`` is the mean of candidate minus current over the ``compared`` of ``planned``
    tasks. Other policies than `strict`, further rounds and what belongs to them are retired.
    """

    policy: Literal["strict", "paired", "sequential"]
    planned: int
    compared: int
    difference: float
    standard_error: float | None = None
    p_value: float | None = None
    alpha: float | None = None
    margin: float = 0.0
    confidence: float | None = None
    rounds: int = 1
    end: Literal["measured", "certain", "futile", "convinced"] = "measured"
    """Why measuring ended: all was measured; no outcome could have changed the verdict; another
    verdict was unlikely; the candidate was sure enough to be better."""
    candidate_attempts: int = 0
    current_attempts: int = 0
    baseline_attempts: int = 0
    saved: int = 0
    """Planned tasks that it did not need to attempt."""
    losses: dict[str, float] = Field(default_factory=dict)
    """Types of task whose mean score fell by more than is allowed, and by how much."""

    @property
    def within_noise(self) -> bool:
        """Whether nothing but the mean decided, and chance alone may have made its difference."""
        return bool(self.standard_error and not self.losses) and within_noise(
            self.difference, self.standard_error, self.compared
        )


_VERDICTS = {
    "accept_new_best": "merged, new best",
    "accept": "merged",
    "accept_notes": "merged, notes only",
    "force_accept": "merged, the gate was open",
    "reject": "reverted",
    "skip_no_patches": "nothing proposed",
    "skip_no_rewrite": "nothing rewritten",
    "open": "provisional",
}


class _Decided:
    """What a decision and its line of the history have in common."""

    if TYPE_CHECKING:  # these are fields, each in its record's own order
        action: str
        score_before: float | None
        score_after: float | None

    @property
    def stays(self) -> bool:
        return "accept" in self.action

    @property
    def better(self) -> bool:
        """Whether it stays because it is better, not because a gate stood open."""
        if self.action in ("accept_new_best", "accept"):
            return True
        higher = self.score_after is not None and self.score_after > (self.score_before or 0.0)
        return self.stays and higher

    @property
    def verdict(self) -> str:
        if self.action == "reject" and self.score_after is None:
            return "nothing changed"
        return _VERDICTS.get(self.action, self.action)


Action = Literal[
    "accept_new_best",
    "accept",
    "accept_notes",
    "force_accept",
    "reject",
    "skip_no_patches",
    "skip_no_rewrite",
]


class Decision(_Decided, Record):
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
    """The last step when the same text was measured, if it was not measured again."""
    beats_best: bool = False
    """The candidate is better than the best skill so far: it takes that one's place if it stays."""
    gate: GateRecord | None = None
    """The arithmetic; absent in records of before it was kept."""
    baseline: Measurement | None = None
    """Retired: what later candidates were held against where it was not `measurement`."""
    incumbent: Measurement | None = None
    """Retired: the current skill's measurement with the attempts that this verdict added."""
    notes: "Decision | None" = None
    """The verdict on the notes alone, where they came with edits that were rejected."""

    @property
    def kept_notes(self) -> "Decision | None":
        """The verdict on the notes if they become part of the skill although the edits do not."""
        return self.notes if self.notes is not None and self.notes.stays else None

    @property
    def verdict(self) -> str:
        if self.action == "accept_new_best" and self.gate and self.gate.within_noise:
            return "merged, within noise"
        return super().verdict

    @property
    def partial(self) -> bool:
        return self.measurement is not None and self.measurement.partial


class Conclusion(BaseModel, frozen=True):
    """What a step's or an epoch's record ends with; the evidence before it is not validated."""

    decision: Decision | None = None
    accounts: AccountsField = Field(default_factory=dict)


class StepRecord(Record):
    """``steps/NNNN.json``: all the evidence of one step."""

    version: int = RECORD_VERSION
    step: int
    epoch: int
    step_in_epoch: int
    simulated: bool
    changes: tuple[str, ...] = ()
    """What changed in the configuration and the training tasks since the step before."""
    basis_sha256: str = ""
    """Hash of the :class:`Basis` that the candidate was made under."""
    proposal: ProposalRecord
    decision: Decision | None = None
    """None while the candidate is in flight."""
    usage: Usage = Usage()
    accounts: AccountsField = Field(default_factory=dict)
    """`usage` by role and stage; records of earlier versions have none."""

    @property
    def changed(self) -> bool:
        return self.proposal.changed


class PairSide(Record):
    """A task's result under one of two compared skills."""

    hard: float
    soft: float


class PairRecord(Record):
    """A training task under the last epoch's skill and under this one's."""

    id: str
    category: str
    previous: PairSide
    current: PairSide


class SlowUpdateRecord(Record):
    """The guidance of an epoch's end.

    The first epoch injects a placeholder; ``propose`` comes with the new guidance in ``content``.
    """

    action: Literal["inject_placeholder", "propose", "no_content"]
    previous_content: str = ""
    content: str = ""
    reasoning: str = ""
    refused: str = ""
    """Why the guard refused the guidance, if it did."""


class MetaSkillRecord(Record):
    """The optimizer's memory of an epoch's end; without new content the old one stays."""

    action: Literal["skip_first_epoch", "write_meta_skill", "no_content"]
    content: str = ""
    reasoning: str = ""
    refused: str = ""
    """Why the guard refused the memory, if it did."""


class BoundaryRecord(Record):
    """``epochs/EE.json``: all the evidence of an epoch's end."""

    version: int = RECORD_VERSION
    epoch: int
    step: int
    simulated: bool
    policy: str = ""
    pairs: tuple[PairRecord, ...] = ()
    previous_hard: float | None = None
    current_hard: float | None = None
    slow_update: SlowUpdateRecord | None = None
    meta_skill: MetaSkillRecord | None = None
    skill_before: str
    skill_after: str
    config_sha256: str
    stages: dict[str, Usage] = Field(default_factory=dict)
    """Usage by stage up to the candidate."""
    decision: Decision | None = None
    """None while the candidate is in flight, and when the skill did not change."""
    usage: Usage = Usage()
    accounts: AccountsField = Field(default_factory=dict)
    """`usage` by role and stage; records of earlier versions have none."""

    @property
    def changed(self) -> bool:
        return self.skill_before != self.skill_after

    @property
    def action(self) -> str:
        """The gate's action; without a candidate, what became of the guidance (or the memory)."""
        if self.decision is not None:
            return self.decision.action
        part = self.slow_update or self.meta_skill
        return "no_content" if part is None else part.action

    @property
    def gist(self) -> str:
        slow, meta = self.slow_update, self.meta_skill
        noted = meta is not None and bool(meta.content)
        if slow is None:
            return "notes for the optimizer" if noted else "no notes for the optimizer"
        if slow.action == "inject_placeholder":
            return "make room for guidance" if self.changed else "there is room for guidance"
        if slow.content:
            return one_line(MARKERS.sub(r"\1", slow.content).replace(".\n-", ";"), 60)
        return "no new guidance, but notes for the optimizer" if noted else "no new guidance"

    @property
    def reason(self) -> str:
        if self.decision is not None:
            return self.decision.reason
        slow, meta = self.slow_update, self.meta_skill
        if slow is not None:
            if slow.refused:
                return f"guidance refused: {slow.refused}"
            if slow.action == "inject_placeholder":
                return "the skill has a place for guidance already"
            return "no new guidance"
        if meta is None or meta.action == "skip_first_epoch":
            return "the first epoch has nothing to compare with"
        return f"notes refused: {meta.refused}" if meta.refused else self.gist


class FreshPair(Record):
    """A task drawn for a confirmation: its scores under both skills in the gate's metric."""

    id: str
    draw: int
    """Its number in the run, and that of the attempts."""
    current: float
    confirmed: float

    @property
    def difference(self) -> float:
        return self.current - self.confirmed


class ConfirmationRecord(Record):
    """``confirmations/KK.json``: the current skill against the last confirmed one, test KK.

    ``pairs`` are in the order in which they were drawn, by ``seed``; draws that could not be
    measured are not among them. ``action`` is what the test came to at its ``level``: a skill is
    confirmed if its ``p_value`` is at most that. Earlier versions bet on the pairs without a fixed
    size; their records have an ``e_value`` instead.
    """

    version: int = RECORD_VERSION
    test: int
    level: float
    step: int
    current: str
    confirmed: str
    """SHA-256 of both skills."""
    measured_under: str
    metric: str
    seed: int
    size: int | None = None
    """Tasks to draw, fixed before the first; the test ends sooner if its verdict is certain."""
    draws: int
    """Tasks drawn for this test so far."""
    action: Literal["confirmed", "refuted", "open"]
    p_value: float | None = None
    """If all tasks left were losses: how likely so many wins are if the skill is no better."""
    e_value: float | None = None
    pairs: tuple[FreshPair, ...] = ()


class Confirmed(Record):
    """The last skill that fresh evidence confirmed; the initial one at the start of a run."""

    sha256: str
    step: int
    """The steps done then."""
    tests: int = 0
    """Tests begun in the run."""
    draws: int = 0
    """Tasks drawn for all of them: no attempt is ever used twice."""


EventKind = Literal[
    "start", "step", "notes", "measure", "set_aside", "slow_update", "confirm", "revert", "finish"
]


class HistoryEntry(_Decided, Record):
    """One line of ``history.jsonl``: what happened, in the order in which it happened.

    ``kind`` is ``start`` (first measurement), ``step``, ``measure`` (the skill, the tasks or the
    configuration changed and the current skill was measured again), ``set_aside`` (of an outdated
    candidate), ``notes`` (of a step whose edits were rejected), ``slow_update`` (the end of an
    epoch), ``confirm`` (fresh attempts at the current and the last confirmed skill; scores are
    their means, ``tasks`` the pairs), ``revert`` (a person took back the step; the text is scored
    next) or ``finish`` (the end of the run).
    """

    kind: EventKind
    step: int
    epoch: int
    action: str
    reason: str = ""
    score_before: float | None = None
    score_after: float | None = None
    best_score: float | None = None
    tasks: int = 0
    edits: int = 0
    edit: int = Field(0, exclude_if=not_)
    """Which of the step's applied edits a person took back, from 1; 0 is the whole step."""
    skill_sha256: str = ""
    """The current skill after this entry."""
    candidate_sha256: str = ""
    candidate_reading: str = ""
    """Hash of what the target reads of the candidate, spacing apart."""
    planned: int = 0
    """Tasks that were to be measured, where fewer settled the verdict: the score is partial."""
    words: int = 0
    """Length of the current skill."""
    config_sha256: str = ""
    usage: Usage = Usage()
    simulated: bool = False

    @property
    def taken(self) -> str:
        return f"a rule of step {self.step}" if self.edit else f"step {self.step}"


class Basis(Record):
    """What a step was proposed under, so that the next one can name what has changed.

    ``config`` is the configuration that influences training; ``train_sha256`` hashes the tasks.
    """

    config: dict[str, JsonValue]
    train_size: int
    train_sha256: str

    @property
    def step_size(self) -> int:
        train: Any = self.config["train"]
        return int(train["batch_size"] * train["accumulation"])

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.train_size // self.step_size)


class State(Record):
    """``state.json``: where training stands. ``usage`` is the whole run's so far.

    ``measured_under`` is the fingerprint of all that a score depends on besides the skill (target
    model, prompts, scorers, selection tasks, metric): only scores under the same one compare.
    """

    version: int = RECORD_VERSION
    run: str
    skill: str
    step: int = Field(ge=0)
    epoch: int
    current: Snapshot
    best: Snapshot
    boundary: int = 0
    """The last epoch whose end has been worked on (slow update, meta skill)."""
    measured_under: str
    config_sha256: str
    basis: Basis | None = None
    """What the last step was proposed under."""
    extra_steps: int = Field(0, exclude_if=not_)
    """Steps done beyond those that this part of the epochs takes with the batches of `basis`."""
    kept: dict[str, JsonValue] = Field(default_factory=dict, exclude_if=not_)
    """What later commands use, by dotted key, where `-o` set some of `basis` for one command."""
    heard_notes: tuple[str, ...] = ()
    """Ids of the reviewers' notes that some step was given: none is given twice."""
    confirmed: Confirmed | None = Field(None, exclude_if=not_)
    """None in a run that began without confirmation."""
    usage: Usage = Usage()
    accounts: AccountsField = Field(default_factory=dict)
    """What of `usage` each role consumed in each stage; the rest is from before this was kept."""
    simulated: bool = False

    @property
    def provisional(self) -> bool:
        """Whether the current skill is one that fresh evidence has yet to confirm."""
        return self.confirmed is not None and self.confirmed.sha256 != self.current.sha256
