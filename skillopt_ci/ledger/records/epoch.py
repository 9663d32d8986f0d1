"""An epoch's end."""

from typing import Literal

from pydantic import Field

from skillopt_ci.ledger.records.base import RECORD_VERSION, Record
from skillopt_ci.ledger.records.step import Decision
from skillopt_ci.ledger.records.usage import AccountRecord, UsageRecord


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

    ``action`` is ``inject_placeholder`` (first epoch), ``propose`` (``content`` is the new
    guidance, the decision stands beside) or ``no_content``.
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
    stages: dict[str, UsageRecord] = Field(default_factory=dict)
    """Usage by stage up to the candidate."""
    decision: Decision | None = None
    """None while the candidate is in flight, and when the skill did not change."""
    usage: UsageRecord = UsageRecord()
    accounts: tuple[AccountRecord, ...] = ()
    """`usage` by role and stage; records of earlier versions have none."""

    @property
    def changed(self) -> bool:
        """Whether the epoch's end proposes another text."""
        return self.skill_before != self.skill_after

    @property
    def action(self) -> str:
        """The gate's action; without a candidate, what became of the guidance (or the memory)."""
        if self.decision is not None:
            return self.decision.action
        part = self.slow_update or self.meta_skill
        return "no_content" if part is None else part.action
