"""A skill text on the selection tasks."""

from pydantic import Field

from skillopt_ci.ledger.records.base import Record


class Measurement(Record):
    """One skill text on the selection tasks.

    ``score`` is in the gate's metric; ``tasks`` maps each measured task to (hard, soft);
    ``errors`` names the tasks that infrastructure or the grader kept from being measured.
    ``density`` is the text's share of leading words (0 where that counts for nothing), ``words``
    its length as the target reads it.
    """

    hard: float
    soft: float
    score: float
    density: float = 0.0
    words: int = 0
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
