"""Trial: the race of a step's edits, on the step's own training tasks."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from skillopt_ci.aio import map_ordered
from skillopt_ci.config.config import Config
from skillopt_ci.ledger.records import RaceRecord
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.report.text import plural
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.skill.edits import Edit, apply_edits
from skillopt_ci.training.attribution import Comparison, compared_in
from skillopt_ci.training.gates.tally import Tally, worth_in
from skillopt_ci.training.measure import Scores
from skillopt_ci.training.memory import all_steps
from skillopt_ci.training.modes.mode import Desk
from skillopt_ci.training.patch import Patch
from skillopt_ci.training.plan import StepPlan
from skillopt_ci.training.pruning import removals
from skillopt_ci.training.race import Field, race
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Standing

STAGE = "race"


def races(config: Config) -> bool:
    """Whether the edits of a step are raced: there are arms for it, and single edits."""
    patches = config.optimizer.skill_update_mode == "patch"
    return patches and config.evaluation.use_gate and config.evaluation.race.arms > 1


def pool_size(config: Config, budget: int | None) -> int | None:
    """How many edits a step may select: the ``budget``, or as many as a race takes."""
    pool = config.evaluation.race.pool
    return pool if races(config) and pool and budget != 0 else budget


async def try_edits(
    session: Session,
    standing: Standing,
    plan: StepPlan,
    patch: Patch[Any],
    bench: Bench,
    desk: Desk,
) -> tuple[Patch[Any], RaceRecord | None]:
    """The patch with doubtful rules put up for removal, and how its edits fared in a race."""
    if not races(session.config):
        return patch, None
    records = all_steps(session, standing)
    past, settings = list(compared_in(records)), session.config.evaluation.race
    gone = removals(standing.skill, records, past, settings.prune)
    touched = {edit.target.strip() for edit in patch.edits}
    edits = (*patch.edits, *(one for one in gone if one.target not in touched))
    if not edits:
        return patch, None
    field = _field(standing.skill, edits, plan, past, desk)
    found = await race(field, settings, partial(_attempt, session, plan, bench))
    kept = sum(one.kept for one in found.effects)
    session.observer(StageFinished(STAGE, f"{kept} of {plural(len(edits), 'edit')} kept"))
    return Patch(edits, patch.reasoning), found


def _field(
    skill: str, edits: Sequence[Edit], plan: StepPlan, past: Sequence[Comparison], desk: Desk
) -> Field:
    def apply(chosen: Sequence[int]) -> tuple[str, tuple[int, ...]]:
        text, reports = apply_edits(skill, [edits[n] for n in chosen], desk.refuse)
        done = [n for n, one in zip(chosen, reports, strict=True) if one.status.applied]
        return text, tuple(done)

    tasks = dict.fromkeys(task.id for batch in plan.batches for task in batch.tasks)
    return Field(edits, apply, list(tasks), past, plan.batches[0].seed)


async def _attempt(
    session: Session, plan: StepPlan, bench: Bench, skills: Sequence[str], names: Sequence[str]
) -> list[Mapping[str, float]]:
    """Roll out the tasks under each of the documents, all at once."""
    evaluation, tasks = session.config.evaluation, _tasks(plan, names)
    worth = worth_in(evaluation)
    session.observer(StageStarted(STAGE, len(skills) * len(names)))

    async def one(skill: str) -> Mapping[str, float]:
        rollouts = await bench.runner.roll_out(
            tasks,
            skill,
            stage=STAGE,
            done=lambda one: session.observer(StageAdvanced(STAGE, one.task_id)),
        )
        refuse_too_many_errors(rollouts, evaluation.max_error_rate, STAGE)
        return {
            name: float(worth(Tally(hard, soft)))
            for name, (hard, soft) in Scores.of(rollouts).means().items()
        }

    return await map_ordered(one, skills, limit=max(1, len(skills)))


def _tasks(plan: StepPlan, names: Sequence[str]) -> list[Any]:
    known = {task.id: task for batch in plan.batches for task in batch.tasks}
    return [known[name] for name in names]
