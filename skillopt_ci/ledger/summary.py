"""``summary.json``, the summary of a run, and the replay of the history that it sums up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import not_

from pydantic import Field

from skillopt_ci.ledger.evidence import AccountsField, Measurement, Record
from skillopt_ci.ledger.records import RECORD_VERSION, HistoryEntry
from skillopt_ci.model.types import Usage

#: Why a skill is measured again, although it may be the same.
MEASURED_ANEW = "the selection tasks or the way of measuring changed"


def new_scale(entry: HistoryEntry, old: str) -> bool:
    """Whether scores from before ``entry``, when the skill's hash was ``old``, do not compare.

    If an unchanged skill was measured again, then tasks, scorers or the model had changed.
    """
    return entry.kind == "measure" and (entry.skill_sha256 == old or MEASURED_ANEW in entry.reason)


def comparable_from(history: Sequence[HistoryEntry]) -> int:
    """The index of the first event whose score is comparable with the latest one."""
    pairs = enumerate(pairwise(history), start=1)
    return max((at for at, (one, entry) in pairs if new_scale(entry, one.skill_sha256)), default=0)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after ``entry``; scores are the gate's, and origins have SkillOpt's names."""

    entry: HistoryEntry
    current_score: float | None
    current_origin: str
    best_score: float | None
    best_step: int
    best_origin: str


def timeline(history: Sequence[HistoryEntry]) -> Iterator[Moment]:
    if not history:
        return
    start, *later = history
    score, step, origin = start.score_after, start.step, "initial_skill"
    now = Moment(start, score, origin, start.best_score, step, origin)
    yield now
    for entry in later:
        best = entry.best_score
        if entry.kind == "measure":
            score = entry.score_after
            if entry.skill_sha256 != now.entry.skill_sha256:
                step, origin = entry.step, "edited_by_hand"
        elif entry.stays:
            score, step, origin = entry.score_after, entry.step, f"step_{entry.step:04}"
            if entry.kind == "slow_update":
                room = "placeholder_" if entry.epoch == 1 else ""
                origin = f"slow_update_{room}epoch_{entry.epoch:02}"
        higher = best is not None and now.best_score is not None and best > now.best_score
        fallen = now.entry.kind == "revert" and best == score
        new = entry.action in ("accept_new_best", "promote") or fallen or (higher and best == score)
        found = (step, origin) if new else (now.best_step, now.best_origin)
        now = Moment(entry, score, origin, best, *found)
        yield now


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
