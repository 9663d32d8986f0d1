"""Confidence intervals, and the one of a proportion."""

import math
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def normal_quantile(confidence: float) -> float:
    """How many standard deviations either side hold the share ``confidence`` of a normal law."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def wilson(mean: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion (Wilson 1927), sound for small ``n`` and near 0 or 1.

    For fractional scores it is conservative: a mean of values within 0 and 1 varies no more than
    a proportion of the same mean.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    z = normal_quantile(confidence)
    spread = z * z / n
    centre = (mean + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(max(mean * (1 - mean), 0.0) / n + spread / (4 * n))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))
