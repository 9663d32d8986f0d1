"""The arithmetic of a verdict."""

from typing import Literal

from pydantic import Field

from skillopt_ci.ledger.records.base import Record


class GateRecord(Record):
    """How a candidate was compared with the current skill, and what that took.

    ``difference`` is the mean of candidate minus current over the ``compared`` of ``planned``
    tasks, with its standard error over tasks. ``p_value`` is that of the sign-flip test; a round
    accepts at ``alpha`` or less, and ``margin`` is the gain that it must be sure of.
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
    """Rounds of attempts that were begun."""
    end: Literal["measured", "certain", "futile", "convinced"] = "measured"
    """Why measuring ended: all was measured; no outcome could have changed the verdict; another
    verdict was unlikely; the candidate was sure enough to be better."""
    candidate_attempts: int = 0
    current_attempts: int = 0
    """Fresh attempts under the current skill, beside those that were known."""
    baseline_attempts: int = 0
    """Attempts that measured the accepted skill afresh, or completed its measurement."""
    saved: int = 0
    """Attempts at planned tasks that were not needed."""
    losses: dict[str, float] = Field(default_factory=dict)
    """Types of task whose mean score fell by more than is allowed, and by how much."""
