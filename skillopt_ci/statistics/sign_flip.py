"""The sign-flip test: whether paired differences are above zero by more than chance."""

import math
from collections.abc import Sequence
from fractions import Fraction
from statistics import NormalDist

#: Up to this many differences other than zero, all flips of signs are counted.
_COUNTED = 60
#: Differences are rounded to parts of this size (or are exact, where theirs are coarser).
_PARTS = 120


def sign_flip_p(differences: Sequence[Fraction]) -> float:
    """The chance of a sum as high as that of ``differences`` if every sign were a coin's toss.

    Fisher's randomisation test of paired differences (The Design of Experiments, 1935, section
    21), one-sided. For differences of one size it is McNemar's exact test. Beyond sixty
    differences other than zero, the sum's normal approximation stands in for counting. Without any
    difference the answer is 1.
    """
    told = [one for one in differences if one]
    if not told:
        return 1.0
    if len(told) > _COUNTED:
        return _normal_p(told)
    parts = _parts(told)
    sizes = [round(one * parts) for one in told]
    counts = {0: 1}
    for size in map(abs, sizes):
        flipped: dict[int, int] = {}
        for total, ways in counts.items():
            flipped[total + size] = flipped.get(total + size, 0) + ways
            flipped[total - size] = flipped.get(total - size, 0) + ways
        counts = flipped
    least = sum(sizes)
    return sum(ways for total, ways in counts.items() if total >= least) / (1 << len(sizes))


def normal_threshold(squares: float, alpha: float) -> float:
    """The sum that differences must reach to be told from chance at ``alpha``.

    ``squares`` is the sum of their squares; the answer is the normal approximation of the test.
    """
    return NormalDist().inv_cdf(1 - alpha) * math.sqrt(squares)


def _normal_p(differences: Sequence[Fraction]) -> float:
    spread = math.sqrt(sum(float(one) ** 2 for one in differences))
    return 1 - NormalDist().cdf(float(sum(differences, Fraction())) / spread)


def _parts(differences: Sequence[Fraction]) -> int:
    common = math.lcm(*(one.denominator for one in differences))
    return min(common, _PARTS)
