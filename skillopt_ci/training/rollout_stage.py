"""Learn from a batch: attempt its tasks while analysts read the attempts as they arrive."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from skillopt_ci import progress
from skillopt_ci.aio import map_ordered
from skillopt_ci.ledger.evidence import BatchRecord
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.rollout.metrics import measured_means
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.text import plural, score_text
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.guard import screened
from skillopt_ci.training.measure import Scores, made_under, next_rounds, rounds
from skillopt_ci.training.memory import step_records
from skillopt_ci.training.plan import Batch, StepPlan, analyst_budget, shuffled
from skillopt_ci.training.reflect import Analysts
from skillopt_ci.training.replies import Reflection
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import Checkout
from skillopt_ci.training.update import UpdateMode, notes_from


def attempts_so_far(
    run: Run, checkout: Checkout, *uncommitted: StepRecord
) -> list[tuple[str, int]]:
    """The attempts under the current skill, oldest first: task id and attempt number."""
    name = checkout.sha256
    return made_under(name, None, (*step_records(run, checkout, under=name), *uncommitted))


@dataclass(frozen=True, slots=True)
class WorkedBatch:
    batch: Batch
    rollouts: Sequence[Rollout]
    reflections: Sequence[Reflection[Any]]
    #: Questions and patches that yielded no reflection.
    lost: Sequence[Lost] = ()


async def learn(
    run: Run,
    checkout: Checkout,
    plan: StepPlan,
    mode: UpdateMode[Any],
    chat: OptimizerChat,
    models: OpenModels,
    batch: Batch,
    observer: progress.Observer,
) -> WorkedBatch:
    """Attempt the tasks of ``batch`` and reflect on them; returns rollouts in the batch's order.

    Attempts start in the order in which analysts read them, so that analysts can start early.
    """
    config, runner = run.config, models.runner
    chat = replace(chat, observer=observer)
    recalled, attempts = _attempts(run, checkout, plan, batch)
    earlier = await runner.carry_out(recalled)
    made = list[Rollout]()

    async def readable() -> AsyncGenerator[Rollout, None]:
        """The rollouts in the order of their attempts, each as soon as possible."""
        for rollout in earlier:
            yield rollout
        observer(progress.StageStarted("rollout", len(attempts)))
        turns = deque((one.task.id, one.attempt) for one in attempts)
        came: dict[tuple[str, int], Rollout] = {}
        async with aclosing(runner.stream(attempts)) as arrivals:
            async for rollout in arrivals:
                observer(progress.StageAdvanced("rollout", rollout.task_id))
                came[rollout.task_id, rollout.attempt] = rollout
                while turns and turns[0] in came:
                    made.append(came.pop(turns.popleft()))
                    yield made[-1]
        Scores(rollouts=made).refuse_errors(config.evaluation.max_error_rate, "training")
        measured = {one.task_id for one in made if one.status.measured}  # not attempts
        hard, *_ = measured_means(made)
        observer(progress.StageFinished("rollout", score_text(hard, len(measured))))

    tasks = {task.id: task for task in run.splits.train}
    most, noted = analyst_budget(config.optimizer), notes_from(config.optimizer)
    analysts = Analysts(mode, chat, tasks, checkout.skill, config.gradient, most, noted)
    async with aclosing(readable()) as rollouts:
        if run.environment is not None and run.environment.reflects:
            shown = [one async for one in rollouts]
            results = await analysts.reflect_there(run.environment, shown, batch.seed)
        else:
            results = await analysts.reflect(rollouts)
    usable = [one for one in results if isinstance(one, Reflection)]
    reflections = screened(usable, checkout.skill, chat.refuse, observer)
    edits = plural(sum(len(one.patch.edits) for one in reflections), mode.noun)
    observer(progress.StageFinished("reflect", f"{edits} proposed"))
    ordered = tuple(one for task in batch.tasks for one in made if one.task_id == task.id)
    return WorkedBatch(batch, ordered, reflections, [x for x in results if isinstance(x, Lost)])


def _attempts(
    run: Run, checkout: Checkout, plan: StepPlan, batch: Batch
) -> tuple[tuple[AttemptRequest, ...], tuple[AttemptRequest, ...]]:
    """The earlier steps' attempts that analysts read first, and those to make, in their order.

    Only the step's first batch has earlier ones.
    """
    config, skill, sha256 = run.config, checkout.skill, checkout.sha256
    each = config.rollout.attempts
    records = step_records(run, checkout, under=sha256)
    # batches before this one may have the same tasks, which gives these tasks later rounds
    before = [task for one in plan.batches[: plan.batches.index(batch)] for task in one.tasks]
    order = (*before, *shuffled(batch.tasks, batch.seed))
    fresh = next_rounds(order, made_under(sha256, None, records), each)[len(before) :]
    attempts = rounds(fresh, skill, "rollout", each)
    # the earlier rounds to read, beside the attempts of all batches of this step
    room = (config.gradient.evidence - len(attempts) * config.train.accumulation) // each
    # without a cache they would be made again
    if before or room <= 0 or not config.cache.enabled:
        return (), attempts
    tasks = {task.id: task for task in run.splits.train}
    comparable = made_under(sha256, run.basis_sha256, records)
    made = dict.fromkeys((name, number // each) for name, number in comparable if name in tasks)
    latest = [(tasks[name], number) for name, number in made][-room:]
    return rounds(latest, skill, "rollout", each), attempts


Work = Callable[[Batch, progress.Observer], Awaitable[WorkedBatch]]


async def work_on(
    batches: Sequence[Batch], work: Work, observer: progress.Observer
) -> list[WorkedBatch]:
    """Work on all ``batches`` at once; each reports to the observer under its number."""
    many = len(batches)

    async def one(number: int) -> WorkedBatch:
        def numbered(event: progress.Event) -> None:
            if isinstance(event, progress.StageEvent):
                event = replace(event, stage=f"{event.stage} {number + 1}/{many}")
            observer(event)

        return await work(batches[number], numbered if many > 1 else observer)

    return await map_ordered(one, range(many), limit=many)


def batch_record(worked: WorkedBatch) -> BatchRecord:
    sources = [one.source_type for one in worked.reflections if one.patch.edits]
    hard, soft, n = measured_means(worked.rollouts)
    return BatchRecord(
        seed=worked.batch.seed,
        hard=hard,
        soft=soft,
        n=n,
        n_failure_patches=sources.count("failure"),
        n_success_patches=sources.count("success"),
    )
