"""Statistics of attempts: means, their uncertainty, and what went wrong.

Pure functions on values. A statistic that the data cannot give, such as the spread of one value,
is None, never 0 or NaN.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.rollout.types import Limit, Rollout, Status
from skillopt_ci.stats import Interval, t_quantile, wilson
from skillopt_ci.util import grouped

#: The bucket of tasks without a type.
OTHER = "other"


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """The mean of ``n`` values; fields that need two values (or ``clusters``) may be None."""

    mean: float | None
    standard_error: float | None
    interval: Interval | None
    n: int
    clusters: int | None


def estimate_mean(
    values: Sequence[float], clusters: Sequence[str] | None = None, *, shares: bool = False
) -> MeanEstimate:
    """Estimate the mean of the distribution that ``values`` were drawn from.

    ``clusters`` names the group of each value (a source document, a topic); values in a group are
    correlated. The interval of 95 % is the mean plus or minus t times the standard error, with one
    degree of freedom less than the number of values or clusters. With ``shares``, values and
    interval lie between 0 and 1. If those values are all 0 or 1 and independent, or all equal, the
    interval is Wilson's, which holds for few values and near the ends.
    """
    n = len(values)
    mean = statistics.fmean(values) if n else None
    error = standard_error(values) if clusters is None else clustered_error(values, clusters)
    groups = None if clusters is None else len(set(clusters))
    if mean is None or error is None:
        return MeanEstimate(mean, None, None, n, groups)
    if shares and (error == 0 or (clusters is None and all(value in (0, 1) for value in values))):
        return MeanEstimate(mean, error, wilson(mean, groups or n), n, groups)
    half = t_quantile(0.95, (groups or n) - 1) * error
    low, high = mean - half, mean + half
    interval = Interval(max(0.0, low), min(1.0, high)) if shares else Interval(low, high)
    return MeanEstimate(mean, error, interval, n, groups)


def standard_error(values: Sequence[float]) -> float | None:
    """``sd / sqrt(n)`` with the sample standard deviation (n - 1); None below two values."""
    if (n := len(values)) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    mean = statistics.fmean(values)
    # `statistics.stdev` uses exact fractions: a hundred times slower, for the last digit
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)


def clustered_error(values: Sequence[float], clusters: Sequence[str]) -> float | None:
    """Cluster-robust standard error of the mean (Miller 2024); None below two clusters."""
    if len(set(clusters)) < 2:  # noqa: PLR2004 - one cluster has no spread
        return None
    mean, pairs = statistics.fmean(values), zip(clusters, values, strict=True)
    deviations = grouped((cluster, value - mean) for cluster, value in pairs)
    squares = math.fsum(math.fsum(own) ** 2 for own in deviations.values())
    return math.sqrt(len(deviations) / (len(deviations) - 1) * squares) / len(values)


@dataclass(frozen=True, slots=True)
class PairedDifference(MeanEstimate):
    """Second minus first over ``n`` shared tasks; ``fixed`` rose and ``broken`` fell."""

    mean: float
    fixed: tuple[str, ...]
    broken: tuple[str, ...]


def paired(
    first: Mapping[str, float],
    second: Mapping[str, float],
    clusters: Mapping[str, str] | None = None,
) -> PairedDifference:
    """Compare scores on the tasks measured in both; ``clusters`` names each task's group."""
    change = {task: second[task] - first[task] for task in first if task in second}
    groups = None if clusters is None else [clusters[task] for task in change]
    found = estimate_mean([*change.values()], groups)
    return PairedDifference(
        *(found.mean or 0.0, found.standard_error, found.interval, found.n, found.clusters),
        fixed=tuple(task for task, gain in change.items() if gain > 0),
        broken=tuple(task for task, gain in change.items() if gain < 0),
    )


def mean_scores(scores: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Mean (hard, soft); zeros without any (SkillOpt 1.2)."""
    if not scores:
        return 0.0, 0.0
    hard, soft = map(statistics.fmean, zip(*scores, strict=True))
    return hard, soft


def measured_means(rollouts: Iterable[Rollout]) -> tuple[float, float, int]:
    """Mean hard and soft score of the measured attempts, and their number."""
    measured = [(one.hard, one.soft) for one in rollouts if one.status.measured]
    return *mean_scores(measured), len(measured)


def pass_at_k(attempts: int, solved: int, k: int) -> float:
    """Unbiased estimate of the chance that one of ``k`` attempts succeeds (Chen et al. 2021)."""
    return 1 - math.comb(attempts - solved, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, solved: int, k: int) -> float:
    """The chance that all of ``k`` attempts succeed, pass^k: ``C(c, k) / C(n, k)``."""
    return math.comb(solved, k) / math.comb(attempts, k)


@dataclass(frozen=True, slots=True)
class ErrorCount:
    status: Status
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class LimitShare:
    """The share of attempts ended by ``limit``: of all measured, and of the unsolved if any."""

    limit: Limit
    of_all: float
    of_unsolved: float | None


def quartiles(values: Sequence[float]) -> tuple[float, ...] | None:
    """The quartiles of ``values``, if any: Hyndman and Fan's type 7 (1996), NumPy's default."""
    if not values:
        return None
    several = values if len(values) > 1 else [*values, *values]
    return tuple(statistics.quantiles(several, n=4, method="inclusive"))


@dataclass(frozen=True, slots=True)
class Graded:
    """The data of an attempt for metrics; ``length`` is the number of messages, if any."""

    task_id: str
    task_type: str
    status: Status
    hard: float
    soft: float
    reason: str = ""
    limit: Limit | None = None
    length: int | None = None

    @property
    def solved(self) -> bool:
        """Whether the score is full; partial credit does not count."""
        return self.status.measured and self.hard == 1


def graded(one: Rollout) -> Graded:
    return Graded(
        *(one.task_id, one.task_type, one.status, one.hard, one.soft, one.reason, one.limit),
        length=len(one.messages) or None,
    )


@dataclass(frozen=True, slots=True)
class Bucket:
    """The mean hard and soft score of one task type, over ``hard.n`` measured tasks."""

    task_type: str
    hard: MeanEstimate
    soft: MeanEstimate


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of attempts. Means weight tasks equally, however many attempts each has.

    ``hard`` and ``soft`` exclude unmeasured attempts; ``pessimistic_hard`` and
    ``pessimistic_soft`` count them as 0, over all tasks (None if there are none). ``complete``
    means that every attempt at every task was measured. ``missing`` names the tasks without a
    measured attempt. ``errors`` has counts, the most common first. ``model_ended`` is the share of
    unsolved attempts that no limit ended, None if all were solved. ``pass_at`` and ``pass_hat``
    are keyed by k and empty if each task has one attempt.
    """

    tasks: int
    attempts: int
    measured: int
    solved: int
    hard: MeanEstimate
    soft: MeanEstimate
    pessimistic_hard: float | None
    pessimistic_soft: float | None
    complete: bool
    missing: tuple[str, ...]
    errors: tuple[ErrorCount, ...]
    by_type: tuple[Bucket, ...]
    limits: tuple[LimitShare, ...]
    model_ended: float | None
    lengths: tuple[float, ...] | None
    pass_at: Mapping[int, float]
    pass_hat: Mapping[int, float]


def summarise(
    attempts: Iterable[Graded],
    *,
    expected: Mapping[str, int] | None = None,
    clusters: Mapping[str, str] | None = None,
) -> Statistics:
    """Summarise attempts. Each task should have ``expected``, or else the largest number found."""
    outcomes = list(attempts)
    made = Counter(outcome.task_id for outcome in outcomes)
    due = expected or dict.fromkeys(made, max(made.values(), default=0))
    measured = [outcome for outcome in outcomes if outcome.status.measured]
    counts = Counter(outcome.task_id for outcome in measured)
    solved = Counter(outcome.task_id for outcome in measured if outcome.solved)
    ended = [outcome.limit for outcome in measured]
    unsolved = [outcome.limit for outcome in measured if not outcome.solved]
    errors = Counter((one.status, one.reason) for one in outcomes if not one.status.measured)
    kinds = grouped((outcome.task_type or OTHER, outcome) for outcome in measured)

    def share(limit: Limit | None) -> float | None:
        return unsolved.count(limit) / len(unsolved) if unsolved else None

    def passes(measure: Callable[[int, int, int], float]) -> dict[int, float]:
        """By k, as far as every task has k attempts: 1, 2, 4, … and the most made, if several."""
        most = max(counts.values(), default=0)
        powers = [2**n for n in range(most.bit_length()) if 2**n < most]
        return {
            k: statistics.fmean(measure(counts[task], solved[task], k) for task in due)
            for k in (*powers, most)
            if most > 1 and all(counts[task] >= k for task in due)
        }

    return Statistics(
        tasks=len(due),
        attempts=len(outcomes),
        measured=len(measured),
        solved=solved.total(),
        hard=_mean_estimate(measured, clusters, lambda one: one.hard),
        soft=_mean_estimate(measured, clusters, lambda one: one.soft),
        pessimistic_hard=_pessimistic(outcomes, due, lambda one: one.hard),
        pessimistic_soft=_pessimistic(outcomes, due, lambda one: one.soft),
        complete=all(counts[task] >= number for task, number in due.items()),
        missing=tuple(task for task in due if not counts[task]),
        errors=tuple(
            ErrorCount(*why, count)
            for why, count in sorted(errors.items(), key=lambda item: (-item[1], item[0]))
        ),
        by_type=tuple(
            Bucket(
                kind,
                _mean_estimate(own, clusters, lambda one: one.hard),
                _mean_estimate(own, clusters, lambda one: one.soft),
            )
            for kind, own in sorted(kinds.items())
        ),
        limits=tuple(
            LimitShare(limit, ended.count(limit) / len(ended), share(limit))
            for limit in Limit
            if limit in ended
        ),
        model_ended=share(None),
        lengths=quartiles([one.length for one in measured if one.length is not None]),
        pass_at=passes(pass_at_k),
        pass_hat=passes(pass_hat_k),
    )


def _mean_estimate(
    measured: Sequence[Graded], clusters: Mapping[str, str] | None, read: Callable[[Graded], float]
) -> MeanEstimate:
    # tasks weigh the same, whatever their attempts
    scores = grouped((one.task_id, read(one)) for one in measured)
    groups = None if clusters is None else [clusters[task] for task in scores]
    return estimate_mean([*map(statistics.fmean, scores.values())], groups, shares=True)


def _pessimistic(
    outcomes: Sequence[Graded], due: Mapping[str, int], read: Callable[[Graded], float]
) -> float | None:
    made = ((one.task_id, read(one) if one.status.measured else 0.0) for one in outcomes)
    scores = {task: list[float]() for task in due} | grouped(made)
    means = [math.fsum(own) / max(len(own), due.get(task, 0), 1) for task, own in scores.items()]
    return statistics.fmean(means) if means else None
