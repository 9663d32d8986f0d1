"""A mean with its standard error and confidence interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.stats import Interval, t_quantile, wilson


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of ``n`` values, None for none.

    ``standard_error`` and ``interval`` are None below two values (or clusters); ``clusters`` is
    the number of groups whose values were not taken as independent, None if all were.
    """

    mean: float | None
    standard_error: float | None
    interval: Interval | None
    n: int
    clusters: int | None = None


def estimate(
    values: Sequence[float],
    clusters: Sequence[str] | None = None,
    *,
    shares: bool = False,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate the mean that ``values`` were drawn around.

    ``clusters`` names the group of each value (a source document, a topic): values of one group
    vary together. The interval is the mean plus and minus t times the standard error, with one
    degree of freedom less than there are values or clusters. With ``shares`` the values are
    scores from 0 to 1, and so is the interval: where all are 0 or 1 and independent, or none
    differs from the others, it is Wilson's, which holds for few values and near the ends.
    """
    n = len(values)
    mean = math.fsum(values) / n if n else None
    error = standard_error(values) if clusters is None else clustered_error(values, clusters)
    groups = None if clusters is None else len(set(clusters))
    if mean is None or error is None:
        return Estimate(mean, None, None, n, groups)
    half = t_quantile(confidence, (groups or n) - 1) * error
    interval = Interval(mean - half, mean + half)
    if shares:
        proportion = clusters is None and all(value in (0, 1) for value in values)
        interval = (
            wilson(mean, groups or n, confidence)
            if proportion or error == 0
            else Interval(max(0.0, interval.low), min(1.0, interval.high))
        )
    return Estimate(mean, error, interval, n, groups)


def standard_error(values: Sequence[float]) -> float | None:
    """``sd / sqrt(n)`` with the sample's standard deviation (n - 1); None below two values."""
    n = len(values)
    if n < 2:  # noqa: PLR2004 - one value has no spread
        return None
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


def clustered_error(values: Sequence[float], clusters: Sequence[str]) -> float | None:
    """Cluster-robust standard error of the mean; None below two clusters.

    ``sqrt(C / (C - 1) * sum over clusters of (sum of deviations)^2) / n`` (Miller 2024, "Adding
    Error Bars to Evals", with the correction for finitely many clusters). Raises ValueError where
    values and clusters are not as many.
    """
    if len(clusters) != len(values):
        raise ValueError(f"{len(values)} values, but {len(clusters)} clusters")
    groups = dict.fromkeys(clusters)
    if len(groups) < 2:  # noqa: PLR2004 - one cluster has no spread
        return None
    mean = math.fsum(values) / len(values)
    deviations: dict[str, list[float]] = {group: [] for group in groups}
    for value, group in zip(values, clusters, strict=True):
        deviations[group].append(value - mean)
    squares = math.fsum(math.fsum(own) ** 2 for own in deviations.values())
    correction = len(groups) / (len(groups) - 1)
    return math.sqrt(correction * squares) / len(values)
