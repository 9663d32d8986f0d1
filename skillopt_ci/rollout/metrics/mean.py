"""Means over attempts, and over tasks however many attempts each has."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skillopt_ci.rollout.outcome import Rollout


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Mean hard and soft score over the ``n`` measured attempts; ``errors`` were not measured."""

    hard: float
    soft: float
    n: int
    errors: int

    def pessimistic(self) -> "Aggregate":
        """The means over all attempts, with those that were not measured as failed."""
        made = self.n + self.errors
        share = self.n / made if made else 0.0
        return Aggregate(self.hard * share, self.soft * share, made, 0)


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


def task_means(scores: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The mean score of each task, in the order of first appearance.

    Their mean weights tasks alike, whether each has as many attempts as the others or not.
    """
    by_task: dict[str, list[float]] = {}
    for task, score in scores:
        by_task.setdefault(task, []).append(score)
    return {task: math.fsum(own) / len(own) for task, own in by_task.items()}
