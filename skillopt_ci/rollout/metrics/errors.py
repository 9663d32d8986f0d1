"""What kept attempts from being measured, counted."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from skillopt_ci.rollout.outcome import Status


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """So many attempts ended with this status, for this reason."""

    status: Status
    reason: str
    count: int


def error_table(errors: Iterable[tuple[Status, str]]) -> tuple[ErrorCount, ...]:
    """Count ``errors`` by status and reason, the commonest first."""
    counted = Counter(errors)
    rows = (ErrorCount(status, reason, count) for (status, reason), count in counted.items())
    return tuple(sorted(rows, key=lambda row: (-row.count, row.status, row.reason)))
