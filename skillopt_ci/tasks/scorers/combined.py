"""Scorers made of scorers: all, any, weighted."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skillopt_ci.aio import siblings
from skillopt_ci.config.scorers import WeightedScorer
from skillopt_ci.tasks.scorers.grading import reaches, verdict
from skillopt_ci.tasks.scorers.score import Score, Scorer
from skillopt_ci.tasks.scorers.wording import sentence
from skillopt_ci.tasks.task import Task

Combine = Callable[[Sequence[Score]], Score]


@dataclass(frozen=True, slots=True)
class Combined:
    """Asks its parts at the same time; the first grader that fails stops the others."""

    parts: tuple[Scorer, ...]
    combine: Combine

    async def score(self, task: Task, response: str) -> Score:
        """Grade with every part and combine their verdicts."""
        async with siblings() as group:
            running = [group.create_task(part.score(task, response)) for part in self.parts]
        return self.combine([done.result() for done in running])


def all_of(scores: Sequence[Score]) -> Score:
    """Hard when every part is; soft is the mean."""
    failed = [score for score in scores if not score.hard]
    soft = math.fsum(score.soft for score in scores) / len(scores)
    return verdict(not failed, _reasons(failed or scores), scores[0].answer, soft=soft)


def any_of(scores: Sequence[Score]) -> Score:
    """Hard when some part is; soft is the maximum."""
    best = max(scores, key=lambda score: (score.hard, score.soft))
    soft = max(score.soft for score in scores)
    reasons = [best] if best.hard else scores
    return verdict(bool(best.hard), _reasons(reasons), best.answer, soft=soft)


def weighted(spec: WeightedScorer, scores: Sequence[Score]) -> Score:
    """Soft is the weighted mean of the parts' soft scores."""
    shares = [weight * score.soft for weight, score in zip(spec.weights, scores, strict=True)]
    soft = min(1.0, math.fsum(shares) / math.fsum(spec.weights))
    solved = reaches(soft, spec.hard_at)
    lacking = [score for score in scores if score.soft < 1]
    return verdict(solved, _reasons(lacking or scores), scores[0].answer, soft=soft)


def _reasons(scores: Sequence[Score]) -> str:
    return sentence([score.reason for score in scores])
