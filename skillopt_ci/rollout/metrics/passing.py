"""What several attempts at a task say: solved at least once, solved every time."""

import math
from collections.abc import Callable, Iterable


def pass_at_k(attempts: int, solved: int, k: int) -> float | None:
    """The chance that of ``k`` attempts at least one solves the task: ``1 - C(n-c, k) / C(n, k)``.

    Unbiased when ``solved`` of ``attempts`` did (Chen et al. 2021). None for fewer attempts than
    ``k``: they do not tell.
    """
    if _impossible(attempts, solved, k):
        return None
    return 1 - math.comb(attempts - solved, k) / math.comb(attempts, k)


def pass_hat_k(attempts: int, solved: int, k: int) -> float | None:
    """The chance that all of ``k`` attempts solve the task, pass^k: ``C(c, k) / C(n, k)``."""
    if _impossible(attempts, solved, k):
        return None
    return math.comb(solved, k) / math.comb(attempts, k)


def at_least_k(attempts: int, solved: int, k: int) -> float | None:
    """1 if at least ``k`` of the attempts solved the task, else 0."""
    return None if _impossible(attempts, solved, k) else float(solved >= k)


Measure = Callable[[int, int, int], float | None]


def mean_pass(counts: Iterable[tuple[int, int]], k: int, measure: Measure) -> float | None:
    """The mean of ``measure`` over the tasks, each as (attempts, solved).

    None where a single task has fewer than ``k`` attempts: the mean of the others would be one
    over other tasks.
    """
    each = [measure(attempts, solved, k) for attempts, solved in counts]
    known = [value for value in each if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(each) else None


def _impossible(attempts: int, solved: int, k: int) -> bool:
    if k < 1 or not 0 <= solved <= attempts:
        raise ValueError(f"{solved} of {attempts} attempts solved, {k} drawn")
    return attempts < k
