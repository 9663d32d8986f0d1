"""Whether one skill is better than another on the same tasks, and how sure one can be of it."""

from enum import StrEnum
from math import comb

from skillopt_ci.rollout.metrics import PairedDifference


class Finding(StrEnum):
    """What a comparison found."""

    IMPROVEMENT = "improvement"
    REGRESSION = "regression"
    UNCLEAR = "no clear difference"
    INCONCLUSIVE = "inconclusive"
    """It could not be measured: neither good nor bad news."""


def judge(
    difference: PairedDifference, *, confidence: float = 0.95, threshold: float = 0.0
) -> Finding:
    """The finding on second minus first.

    It is clear if chance alone would split the changed tasks as unevenly in fewer than
    1 − ``confidence`` of all cases (exact sign test, sound for few tasks), and if the mean changed
    by ``threshold`` at least.
    """
    if not difference.n:
        return Finding.INCONCLUSIVE
    fixed, broken = len(difference.fixed), len(difference.broken)
    sure = chance(fixed, broken) <= 1 - confidence + 1e-12
    if not sure or abs(difference.mean) < threshold:
        return Finding.UNCLEAR
    if difference.mean > 0 and fixed > broken:
        return Finding.IMPROVEMENT
    if difference.mean < 0 and broken > fixed:
        return Finding.REGRESSION
    return Finding.UNCLEAR


def chance(fixed: int, broken: int) -> float:
    """The probability of a split at least as uneven if better and worse were equally likely."""
    n = fixed + broken
    tail = sum(comb(n, k) for k in range(min(fixed, broken) + 1))
    return min(1.0, 2.0 * tail / float(2**n))
