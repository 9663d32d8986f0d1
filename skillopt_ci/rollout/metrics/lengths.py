"""How long trajectories are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quartiles:
    """The 25th, 50th and 75th percentile."""

    low: float
    median: float
    high: float


def quartiles(values: Sequence[float]) -> Quartiles | None:
    """The quartiles of ``values``, None for none."""
    if not values:
        return None
    ordered = sorted(values)
    return Quartiles(*(percentile(ordered, share) for share in (0.25, 0.5, 0.75)))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that the ``share`` of ``ordered`` (ascending) lies below.

    Between two values it is linear: type 7 of Hyndman and Fan 1996, which NumPy and R default to.
    """
    place = share * (len(ordered) - 1)
    before = math.floor(place)
    after = min(before + 1, len(ordered) - 1)
    return ordered[before] + (ordered[after] - ordered[before]) * (place - before)
