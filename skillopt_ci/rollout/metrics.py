"""Means over attempts, and how sure one can be of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from skillopt_ci.rollout.outcome import Rollout


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Mean hard and soft score over the ``n`` measured attempts; ``errors`` were not measured."""

    hard: float
    soft: float
    n: int
    errors: int


def aggregate(rollouts: Sequence[Rollout]) -> Aggregate:
    """Arithmetic means; no measured attempt at all gives zeros with ``n`` 0 (SkillOpt 1.2)."""
    measured = [rollout for rollout in rollouts if rollout.status.measured]
    count = len(measured)
    return Aggregate(
        hard=math.fsum(rollout.hard for rollout in measured) / count if count else 0.0,
        soft=math.fsum(rollout.soft for rollout in measured) / count if count else 0.0,
        n=count,
        errors=len(rollouts) - count,
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a mean, within 0 and 1."""

    low: float
    high: float


def wilson(mean: float, n: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion (Wilson 1927), sound for small ``n`` and near 0 or 1.

    For fractional scores it is conservative: a mean of values within 0 and 1 varies no more than
    a proportion of the same mean.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    spread = z * z / n
    centre = (mean + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(max(mean * (1 - mean), 0.0) / n + spread / (4 * n))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """``mean`` of second minus first over ``n`` shared tasks, with its standard error.

    ``standard_error`` is None below two tasks. ``fixed`` and ``broken`` name the tasks whose hard
    score went up and down.
    """

    mean: float
    standard_error: float | None
    n: int
    fixed: tuple[str, ...]
    broken: tuple[str, ...]


def paired(first: dict[str, float], second: dict[str, float]) -> PairedDifference:
    """Compare two sets of scores task by task, over the tasks that both measured."""
    shared = [task for task in first if task in second]
    differences = [second[task] - first[task] for task in shared]
    n = len(differences)
    mean = math.fsum(differences) / n if n else 0.0
    variance = math.fsum((d - mean) ** 2 for d in differences) / (n - 1) if n > 1 else None
    return PairedDifference(
        mean=mean,
        standard_error=None if variance is None else math.sqrt(variance / n),
        n=n,
        fixed=tuple(task for task in shared if second[task] > first[task]),
        broken=tuple(task for task in shared if second[task] < first[task]),
    )
