"""A run as reports see it: its record, and where in git each step is found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from skillopt_ci.ledger.records import (
    BoundaryRecord,
    HistoryEntry,
    Measurement,
    State,
    StepRecord,
    Summary,
)
from skillopt_ci.ledger.timeline import Moment, timeline
from skillopt_ci.report.terminal import tally


@dataclass(frozen=True, slots=True)
class StepPlace:
    """Where a step is in git; empty where its commits cannot be reached any more."""

    verdict: str = ""
    """The commit that merged or reverted it."""
    candidate: str = ""
    seconds: float | None = None


EventKind = Literal["step", "slow_update"]


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as of ``commit``. ``steps`` has the evidence of the newest steps, oldest first."""

    state: State
    history: tuple[HistoryEntry, ...]
    steps: tuple[StepRecord, ...] = ()
    epochs: tuple[BoundaryRecord, ...] = ()
    """The newest epochs' ends, oldest first."""
    summary: Summary | None = None
    """What came of the run when it was last finished."""
    places: Mapping[tuple[EventKind, int], StepPlace] = field(default_factory=dict)
    """Where steps and epochs' ends are, by their numbers."""
    base: str = ""
    """The branch that people work on."""
    base_events: int = 0
    """How many events of ``history`` base has already."""
    commit: str = ""

    @property
    def skill_name(self) -> str:
        """What people call the skill: its folder's name for a SKILL.md, else its file's."""
        *folders, file = self.state.skill.split("/")
        return folders[-1] if folders and file.lower() == "skill.md" else file

    @property
    def scale(self) -> tuple[HistoryEntry, ...]:
        """The events whose scores can be compared with today's, the first measurement first.

        A skill that was measured again without a change was measured in another way: tasks,
        scorers or model had changed.
        """
        start = 0
        for index, (before, entry) in enumerate(
            zip(self.history, self.history[1:], strict=False), start=1
        ):
            if entry.kind == "measure" and entry.skill_sha256 == before.skill_sha256:
                start = index
        return self.history[start:]

    @property
    def first_score(self) -> float:
        """The score that today's is compared with."""
        return next((entry.score_after or 0.0 for entry in self.scale), 0.0)

    @property
    def rescaled(self) -> bool:
        """Whether the way of measuring changed since training began."""
        return len(self.scale) < len(self.history)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many steps were merged, reverted, or had no candidate."""
        return tally(self.history)

    @property
    def improved(self) -> bool:
        """Whether the branch has something better that base has not."""
        return any(entry.better for entry in self.history[self.base_events :])

    @property
    def newest(self) -> StepRecord | None:
        """The last step, if its evidence is there."""
        return self.steps[-1] if self.steps else None

    def place(self, number: int, kind: EventKind = "step") -> StepPlace:
        """Where a step, or an epoch's end, is in git."""
        return self.places.get((kind, number), StepPlace())


@dataclass(frozen=True, slots=True)
class RunRecords:
    """All records of a run, and what only its commits know.

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
