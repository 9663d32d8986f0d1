"""Two-level designs: which changes are tried together, so that each one's effect shows."""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from statistics import NormalDist


def balanced_subsets(items: int, runs: int, seed: int) -> tuple[frozenset[int], ...]:
    """``runs`` different subsets of the numbers 0 to ``items`` - 1, each number in half of them.

    In the columns of a Hadamard matrix any two changes are on together in a quarter of the runs, so
    that every run says something about every change (Plackett and Burman, 1946). ``seed`` deals the
    columns; further changes are balanced draws. With fewer subsets than ``runs``, all are returned.
    """
    if items == 0 or runs <= 0:
        return ()
    draw = random.Random(seed)
    if 2**items <= runs:
        numbers = list(range(2**items))
        draw.shuffle(numbers)
        return tuple(frozenset(i for i in range(items) if n >> i & 1) for n in numbers)
    size = 1 << (runs - 1).bit_length()
    walsh = [[(r & c).bit_count() % 2 == 0 for r in range(size)] for c in range(1, size)]
    draw.shuffle(walsh)
    rows = draw.sample(range(size), runs)
    columns = [[column[r] for r in rows] for column in walsh[:items]]
    for _ in range(items - len(columns)):
        column = [r % 2 == 0 for r in range(runs)]
        draw.shuffle(column)
        columns.append(column)
    flips = [draw.choice((False, True)) for _ in columns]
    subsets = (
        frozenset(i for i, column in enumerate(columns) if column[r] != flips[i])
        for r in range(runs)
    )
    return tuple(dict.fromkeys(subsets))


# Bayesian linear regression with a Gaussian prior: what each part of a sum is worth.


@dataclass(frozen=True, slots=True)
class Observation:
    """``value`` is the sum of effects in their weights, measured with the given ``variance``."""

    weights: Mapping[str, float]
    value: float
    variance: float


@dataclass(frozen=True, slots=True)
class Effect:
    """What is believed of an effect: a normal distribution."""

    mean: float
    sd: float

    @property
    def helpful(self) -> float:
        """The probability that the effect is above zero."""
        return NormalDist().cdf(self.mean / self.sd) if self.sd else 0.5


@dataclass(frozen=True, slots=True)
class Belief:
    """A joint normal distribution of named effects: means, and the root of the precision."""

    means: Mapping[str, float]
    root: Sequence[Sequence[float]]

    def effect(self, weights: Mapping[str, float]) -> Effect:
        """That of all effects in their ``weights``; unknown ones count nothing."""
        row = [weights.get(name, 0.0) for name in self.means]
        mean = sum(a * b for a, b in zip(row, self.means.values(), strict=True))
        half = _forward(self.root, row)
        return Effect(mean, math.sqrt(sum(value * value for value in half)))


def believe(
    observations: Sequence[Observation], prior_sd: float, names: Iterable[str] = ()
) -> Belief:
    """The posterior of effects (``names`` too) with a normal prior around 0.

    The conjugate update of normal beliefs by normal measurements (Bishop, Pattern Recognition and
    Machine Learning, 2006, 3.3).
    """
    seen_names = chain.from_iterable(one.weights for one in observations)
    places = {name: n for n, name in enumerate(dict.fromkeys(chain(seen_names, names)))}
    size = len(places)
    precision = [[float(i == j) / prior_sd**2 for j in range(size)] for i in range(size)]
    pull = [0.0] * size
    for seen in observations:
        told = [(places[name], weight) for name, weight in seen.weights.items() if weight]
        for i, weight in told:
            pull[i] += weight * seen.value / seen.variance
            for j, other in told:
                precision[i][j] += weight * other / seen.variance
    root = _cholesky(precision)
    means = _backward(root, _forward(root, pull))
    return Belief(dict(zip(places, means, strict=True)), root)


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower triangle whose product with itself is ``matrix``."""
    lower: list[list[float]] = []
    for i, row in enumerate(matrix):
        mine = _forward(lower, row[:i])
        mine.append(math.sqrt(row[i] - sum(value * value for value in mine)))
        lower.append(mine)
    return lower


def _forward(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    solved: list[float] = []
    for row, value in zip(lower, right, strict=True):
        solved.append((value - sum(a * b for a, b in zip(row, solved, strict=False))) / row[-1])
    return solved


def _backward(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    solved = [0.0] * len(right)
    for i in reversed(range(len(right))):
        later = sum(lower[j][i] * solved[j] for j in range(i + 1, len(right)))
        solved[i] = (right[i] - later) / lower[i][i]
    return solved


# The sign-flip test: whether paired differences are above zero by more than chance.

#: Up to this many differences other than zero, all flips of signs are counted.
_COUNTED = 60
#: Differences are rounded to parts of this size (or are exact, where theirs are coarser).
_PARTS = 120


def sign_flip_p(differences: Sequence[Fraction]) -> float:
    """The chance of a sum as high as that of ``differences`` if every sign were a coin's toss.

    Fisher's one-sided randomisation test of paired differences (1935); McNemar's exact test where
    all differences are of one size. Beyond sixty, the sum's normal approximation stands in for
    counting.
    """
    told = [one for one in differences if one]
    if not told:
        return 1.0
    if len(told) > _COUNTED:
        spread = math.sqrt(sum(float(one) ** 2 for one in told))
        return 1 - NormalDist().cdf(float(sum(told, Fraction())) / spread)
    parts = min(math.lcm(*(one.denominator for one in told)), _PARTS)
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
    """The sum that differences with this sum of ``squares`` must reach at ``alpha``, about."""
    return NormalDist().inv_cdf(1 - alpha) * math.sqrt(squares)


# Student's t distribution, for whole degrees of freedom.

#: Terms below this share of the sum cannot change a double any more.
_NEGLIGIBLE = 1e-18


def t_quantile(confidence: float, degrees: int) -> float:
    """The t that -t and t hold the share ``confidence`` between, for ``degrees`` of freedom.

    Found by halving the angle whose tangent is t over the root of the degrees. Raises ValueError
    for fewer than one degree of freedom or a confidence that is not between 0 and 1.
    """
    if degrees < 1 or not 0 < confidence < 1:
        raise ValueError(f"no t for {degrees} degrees of freedom at a confidence of {confidence}")
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

    The finite series of Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3-4.
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


# Confidence intervals, and the one of a proportion.


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


def wilson(mean: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion (1927), sound for small ``n`` and near 0 or 1.

    For fractional scores it is conservative.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    spread = z * z / n
    centre = (mean + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(max(mean * (1 - mean), 0.0) / n + spread / (4 * n))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))
