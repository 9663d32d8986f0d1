"""The race of a step's edits."""

from pydantic import Field

from skillopt_ci.ledger.records.base import Record


class ArmRecord(Record):
    """A subset of the edits, by their numbers from 0, and its score on each task that was tried."""

    edits: tuple[int, ...]
    scores: dict[str, float] = Field(default_factory=dict)


class HeatRecord(Record):
    """Subsets that were tried on the same tasks; ``errors`` counts attempts without a score."""

    arms: tuple[ArmRecord, ...] = ()
    errors: int = 0


class EffectRecord(Record):
    """What is believed of an edit after the race: what it adds to the mean score, give or take.

    ``helpful`` is the probability that it adds anything.
    """

    mean: float
    sd: float
    helpful: float
    kept: bool


class RaceRecord(Record):
    """How the edits of a step were tried against each other on training tasks.

    ``effects`` has one entry for each edit of the proposal, in order.
    """

    heats: tuple[HeatRecord, ...] = ()
    effects: tuple[EffectRecord, ...] = ()

    @property
    def attempts(self) -> int:
        """Attempts that the race took."""
        scored = sum(len(arm.scores) for heat in self.heats for arm in heat.arms)
        return scored + sum(heat.errors for heat in self.heats)
