"""Two sets of scores, compared task by task."""

from collections.abc import Mapping
from dataclasses import dataclass

from skillopt_ci.rollout.metrics.estimate import estimate
from skillopt_ci.stats import Interval


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """``mean`` of second minus first over ``n`` shared tasks, with its standard error.

    ``standard_error`` and ``interval`` (95 %, Student's t) are None below two tasks, or clusters
    if tasks were taken to vary in ``clusters`` groups. ``fixed`` and ``broken`` name the tasks
    whose score went up and down.
    """

    mean: float
    standard_error: float | None
    n: int
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    interval: Interval | None = None
    clusters: int | None = None


def paired(
    first: Mapping[str, float],
    second: Mapping[str, float],
    clusters: Mapping[str, str] | None = None,
) -> PairedDifference:
    """Compare two sets of scores over the tasks that both measured.

    ``clusters`` names the group of each task.
    """
    shared = [task for task in first if task in second]
    differences = [second[task] - first[task] for task in shared]
    groups = None if clusters is None else [clusters[task] for task in shared]
    found = estimate(differences, groups)
    return PairedDifference(
        mean=found.mean or 0.0,
        standard_error=found.standard_error,
        n=found.n,
        fixed=tuple(task for task in shared if second[task] > first[task]),
        broken=tuple(task for task in shared if second[task] < first[task]),
        interval=found.interval,
        clusters=found.clusters,
    )
