"""Evaluate: one skill text on a list of tasks."""

from collections.abc import Sequence

from skillopt_ci.ledger.records import Measurement
from skillopt_ci.progress import Observer, StageAdvanced, StageFinished, StageStarted
from skillopt_ci.report.figures import score_text
from skillopt_ci.rollout.metrics import aggregate
from skillopt_ci.rollout.outcome import Rollout
from skillopt_ci.rollout.runner import Runner, refuse_too_many_errors
from skillopt_ci.settings.config import Evaluation
from skillopt_ci.skill.density import semantic_density
from skillopt_ci.skill.document import word_count
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.gate import gate_score


async def measure(
    skill: str,
    tasks: Sequence[Task],
    *,
    runner: Runner,
    evaluation: Evaluation,
    observer: Observer,
    stage: str = "selection",
) -> Measurement:
    """Roll out ``tasks`` once under ``skill`` and return the scores per task and in the mean.

    Raises :class:`~skillopt_ci.errors.TooManyErrors` when too many tasks could not be measured.
    """
    observer(StageStarted(stage, len(tasks)))
    rollouts = await runner.roll_out(
        tasks, skill, stage=stage, done=lambda one: observer(StageAdvanced(stage, one.task_id))
    )
    refuse_too_many_errors(rollouts, evaluation.max_error_rate, stage)
    result = measurement(rollouts, evaluation, skill)
    observer(StageFinished(stage, score_text(result.score, result.n)))
    return result


def measurement(
    rollouts: Sequence[Rollout], evaluation: Evaluation, skill: str = ""
) -> Measurement:
    """The measurement of ``skill`` that ``rollouts`` amount to, its score in the gate's metric."""
    means, read = aggregate(rollouts), as_read(skill)
    dense = evaluation.use_semantic_density
    density = semantic_density(read, evaluation.leading_words) if dense else 0.0
    mean = gate_score(means.hard, means.soft, evaluation.gate_metric, evaluation.gate_mixed_weight)
    return Measurement(
        hard=means.hard,
        soft=means.soft,
        score=mean + evaluation.semantic_density_weight * density,
        density=density,
        words=word_count(read),
        tasks={one.task_id: (one.hard, one.soft) for one in rollouts if one.status.measured},
        errors=tuple(one.task_id for one in rollouts if not one.status.measured),
    )
