"""A step: its candidate and the verdict on it."""

from typing import Literal

from skillopt_ci.ledger.records.base import RECORD_VERSION, Record
from skillopt_ci.ledger.records.gate import GateRecord
from skillopt_ci.ledger.records.measurement import Measurement
from skillopt_ci.ledger.records.proposal import ProposalRecord
from skillopt_ci.ledger.records.usage import AccountRecord, UsageRecord

Action = Literal[
    "accept_new_best",
    "accept",
    "accept_notes",
    "force_accept",
    "reject",
    "skip_no_patches",
    "skip_no_rewrite",
]


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
    beats_best: bool = False
    """The candidate is better than the best skill so far: it takes that one's place if it stays."""
    gate: GateRecord | None = None
    """The arithmetic; absent in records of before it was kept."""
    baseline: Measurement | None = None
    """What later candidates are held against if this one stays, where it is not `measurement`."""
    incumbent: Measurement | None = None
    """The current skill's measurement with the attempts that this verdict added."""
    notes: "Decision | None" = None
    """The verdict on the notes alone, where they came with edits that were rejected."""

    @property
    def keeps_notes(self) -> bool:
        """Whether the notes become part of the current skill although the edits do not."""
        return self.notes is not None and self.notes.stays

    @property
    def partial(self) -> bool:
        """Whether `score_after` is an estimate: tasks not measured are taken as unchanged."""
        return self.measurement is not None and self.measurement.partial

    @property
    def stays(self) -> bool:
        """Whether the candidate becomes the current skill."""
        return "accept" in self.action


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
    usage: UsageRecord = UsageRecord()
    accounts: tuple[AccountRecord, ...] = ()
    """`usage` by role and stage; records of earlier versions have none."""

    @property
    def merged(self) -> bool:
        """Whether the candidate stayed."""
        return self.decision is not None and self.decision.stays
