"""All that is known of a run, as the export needs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.ledger.records.epoch import BoundaryRecord
from skillopt_ci.ledger.records.measurement import Measurement
from skillopt_ci.ledger.records.run import HistoryEntry, State
from skillopt_ci.ledger.records.step import StepRecord
from skillopt_ci.ledger.records.summary import Summary
from skillopt_ci.report.timeline import Moment, timeline


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run's records, and what only its commits know.

    ``texts`` are skill texts by their SHA-256, ``seconds`` what each step took, ``baseline`` the
    first measurement of the initial skill: each as far as the history reaches.
    """

    state: State
    history: Sequence[HistoryEntry]
    steps: Mapping[int, StepRecord]
    boundaries: Mapping[int, BoundaryRecord]
    summary: Summary | None
    texts: Mapping[str, str]
    seconds: Mapping[int, float]
    baseline: Measurement | None = None

    @property
    def moments(self) -> tuple[Moment, ...]:
        """How things stood after each event."""
        return tuple(timeline(self.history))

    @property
    def config(self) -> Mapping[str, object]:
        """The configuration of the last step, without what may hold a secret."""
        return {} if self.state.basis is None else self.state.basis.config

    def skills(self) -> dict[int, str]:
        """The current skill after each step (0: before the first), where its text is known."""
        hashes = {moment.entry.step: moment.skill_sha256 for moment in self.moments}
        return {step: self.texts[key] for step, key in hashes.items() if key in self.texts}


def short_hash(sha256: str) -> str:
    """SkillOpt's name for a skill text."""
    return sha256[:16]


def known(facts: Mapping[str, object]) -> dict[str, object]:
    """``facts`` without those that nobody knows (None)."""
    return {key: value for key, value in facts.items() if value is not None}
