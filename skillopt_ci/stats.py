"""Quantiles and confidence intervals."""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

#: Terms below this share of the sum no longer change a double.
_NEGLIGIBLE = 1e-18


@lru_cache(maxsize=1024)
def t_quantile(confidence: float, degrees: int) -> float:
    """The two-sided quantile, by bisecting the angle whose tangent is t / sqrt(degrees)."""
    low, high = 0.0, math.pi / 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return math.sqrt(degrees) * math.tan(low)
        if central_share(middle, degrees) < confidence:
            low = middle
        else:
            high = middle


def central_share(angle: float, degrees: int) -> float:
    """The probability of \\|t\\| below ``sqrt(degrees) * tan(angle)``.

    Uses the finite series of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3-4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    if degrees == 1:
        return 2 * angle / math.pi
    term = total = cosine if odd else 1.0
    for n in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (n - 1) / n
        total += term
        if term < _NEGLIGIBLE * total:
            break
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


class Interval(NamedTuple):
    low: float
    high: float

    @property
    def digits(self) -> int:
        # decimals to show; with two, an interval as narrow as 0.9987 to 1 would look like none
        return 2 if self.high - self.low > 0.01 else 4  # noqa: PLR2004 - a step of two decimals


def wilson(mean: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval (1927): sound for few values, conservative for fractional scores."""
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    spread = z * z / n
    centre = (mean + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(max(mean * (1 - mean), 0.0) / n + spread / (4 * n))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def sign_test(wins: int, losses: int) -> float:
    """The probability of at least ``wins`` if a win and a loss are equally likely."""
    n, ways, tail = wins + losses, 1, 0
    for k in range(losses + 1):
        tail, ways = tail + ways, ways * (n - k) // (k + 1)
    return tail / (1 << n)
