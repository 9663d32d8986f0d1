"""The summary of a run, ``summary.json``, written by ``finish``."""

from operator import not_

from pydantic import Field

from skillopt_ci.ledger.evidence import AccountsField, Measurement, Record
from skillopt_ci.ledger.records import RECORD_VERSION
from skillopt_ci.model.types import Usage


class TypeScore(Record):
    """Mean hard score over the ``n`` measured tasks of one type."""

    hard: float
    n: int


class FinalSkill(Record):
    """One of the three skills that a run is summed up by: the initial, the best or the last.

    ``score`` is the gate's, on the selection tasks; ``test`` was measured on the test tasks, which
    no decision of training looked at, ``interval`` is the 95 % interval of its mean hard score.
    """

    sha256: str
    step: int
    origin: str
    score: float | None = None
    test: Measurement | None = None
    interval: tuple[float, float] | None = None
    by_type: dict[str, TypeScore] = Field(default_factory=dict)


class DifferenceRecord(Record):
    """Hard score of a skill minus that of the initial one, over the ``n`` tasks both measured."""

    mean: float
    standard_error: float | None
    n: int
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    clusters: int | None = Field(None, exclude_if=not_)
    """The clusters that the tasks come from, if each names its own: the error is over these."""


class EpochSummary(Record):
    """The steps of one epoch, and the gate's scores at its end."""

    epoch: int
    steps: int
    accepts: int
    rejects: int
    skips: int
    best_score: float | None
    current_score: float | None


class Summary(Record):
    """``summary.json``: what came of a run. ``stages`` sorts its whole usage by stage."""

    version: int = RECORD_VERSION
    run: str
    skill: str
    simulated: bool
    step: int
    total_steps: int
    epoch: int
    metric: str
    initial: FinalSkill
    best: FinalSkill
    last: FinalSkill
    promoted: bool
    """The last skill had a higher score than the best one and took its place."""
    best_gain: DifferenceRecord | None = None
    last_gain: DifferenceRecord | None = None
    epochs: tuple[EpochSummary, ...] = ()
    stages: dict[str, Usage] = Field(default_factory=dict)
    usage: Usage = Usage()
    accounts: AccountsField = Field(default_factory=dict)
    """What of `usage` each role consumed in each stage; the rest is from before this was kept."""
    tested_under: str = ""
    """Fingerprint of what the test scores depend on besides the skill; empty without a test."""
    trained: int = Field(0, exclude_if=not_)
    """How many of the test tasks training used while they were in another split."""

    @property
    def tested(self) -> tuple[FinalSkill, ...]:
        return tuple(one for one in (self.initial, self.best, self.last) if one.test is not None)
