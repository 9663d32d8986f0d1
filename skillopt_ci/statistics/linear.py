"""Bayesian linear regression with a Gaussian prior: what each part of a sum is worth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class Observation:
    """``value`` is the sum of weighted effects, measured with the given ``variance``."""

    weights: Sequence[float]
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
    """A joint normal distribution of effects: means, and the root of the precision."""

    means: Sequence[float]
    root: Sequence[Sequence[float]]

    def effect(self, weights: Sequence[float]) -> Effect:
        """What is believed of a weighted sum of the effects."""
        mean = sum(a * b for a, b in zip(weights, self.means, strict=True))
        half = _forward(self.root, weights)
        return Effect(mean, math.sqrt(sum(value * value for value in half)))


def believe(observations: Sequence[Observation], size: int, prior_sd: float) -> Belief:
    """The posterior of ``size`` effects that are each thought to be about 0, give or take.

    The conjugate update of normal beliefs by normal measurements (Bishop, Pattern Recognition and
    Machine Learning, 2006, 3.3). ``prior_sd`` and every ``variance`` must be above zero.
    """
    precision = [[float(i == j) / prior_sd**2 for j in range(size)] for i in range(size)]
    pull = [0.0] * size
    for seen in observations:
        told = [(i, weight) for i, weight in enumerate(seen.weights) if weight]
        for i, weight in told:
            pull[i] += weight * seen.value / seen.variance
            for j, other in told:
                precision[i][j] += weight * other / seen.variance
    root = _cholesky(precision)
    return Belief(_backward(root, _forward(root, pull)), root)


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower triangle whose product with itself is ``matrix``."""
    lower: list[list[float]] = []
    for i, row in enumerate(matrix):
        mine: list[float] = []
        for j in range(i):
            inner = sum(a * b for a, b in zip(mine, lower[j], strict=False))
            mine.append((row[j] - inner) / lower[j][j])
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
