"""Learning from a batch: attempts at its tasks, and analysts who read them as they come."""

import random
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from skillopt_ci.aio import begun
from skillopt_ci.progress import Observer, StageAdvanced, StageFinished, StageStarted
from skillopt_ci.report.text import plural, score_text
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.metrics import aggregate as mean_of
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.arrivals import Arrivals
from skillopt_ci.training.attempts import Numbered, next_rounds, roll_out_numbered, round_of
from skillopt_ci.training.environment_reflect import reflect_there
from skillopt_ci.training.evidence import Made, recall
from skillopt_ci.training.footing import Footing
from skillopt_ci.training.modes.mode import Desk, UpdateMode
from skillopt_ci.training.notes import notes_from
from skillopt_ci.training.patch import Item, Reflection
from skillopt_ci.training.plan import Batch
from skillopt_ci.training.reflect import reflect
from skillopt_ci.training.schedule import analyst_budget
from skillopt_ci.training.screen import screened
from skillopt_ci.training.session import Bench, Session


@dataclass(frozen=True, slots=True)
class Lesson(Generic[Item]):
    """What the batches of a step are worked on with.

    ``made`` are earlier attempts under ``skill``; the batches are attempted on ``footing``.
    """

    session: Session
    skill: str
    made: Made
    footing: Footing
    mode: UpdateMode[Item]
    desk: Desk
    bench: Bench


async def learn(
    lesson: Lesson[Item], batch: Batch, observer: Observer, *, recalls: bool
) -> tuple[tuple[Rollout, ...], tuple[Reflection[Item], ...]]:
    """Attempt the tasks of ``batch`` and reflect on them; the attempts are in its order.

    Analysts read the attempts in an order that the batch's seed gives, in which they begin as
    well: so the first minibatch is complete long before the last attempt. With ``recalls`` they
    read earlier attempts too, before these.
    """
    runner = lesson.bench.runner
    attempts = next_rounds(dealt(batch), lesson.footing.made, runner.attempts)
    arrivals = Arrivals(
        (one.task.id, number)
        for one in attempts
        for number in round_of(one.number, runner.attempts)
    )

    async def roll_out(_: int) -> tuple[Rollout, ...]:
        with arrivals.complete():
            return await _roll_out(lesson, attempts, arrivals.came, observer)

    async def remember(most: int) -> tuple[Rollout, ...]:
        return await recall(lesson.session, lesson.skill, lesson.made, most, lesson.bench)

    room = lesson.session.config.gradient.evidence - len(attempts) * runner.attempts
    async with begun(roll_out) as rolling, begun(remember) as recalling:
        rolling.begin(batch.seed)
        earlier = recalling.result(room if recalls else 0)
        reflections = await _reflect(lesson, batch, _after(earlier, arrivals), observer)
        rollouts = await rolling.result(batch.seed)
    places = {task.id: number for number, task in enumerate(batch.tasks)}
    return tuple(sorted(rollouts, key=lambda one: places[one.task_id])), reflections


def dealt(batch: Batch) -> list[Task]:
    """The tasks of ``batch`` in the order in which analysts read them: a shuffle by its seed."""
    order = list(batch.tasks)
    random.Random(batch.seed).shuffle(order)
    return order


async def _after(
    earlier: Awaitable[Sequence[Rollout]], arrivals: Arrivals
) -> AsyncIterator[Rollout]:
    for rollout in await earlier:
        yield rollout
    async for rollout in arrivals.in_order():
        yield rollout


async def _roll_out(
    lesson: Lesson[Item],
    attempts: Sequence[Numbered],
    came: Callable[[Rollout], None],
    observer: Observer,
) -> tuple[Rollout, ...]:
    runner, limit = lesson.bench.runner, lesson.session.config.evaluation.max_error_rate

    def done(rollout: Rollout) -> None:
        came(rollout)
        observer(StageAdvanced("rollout", rollout.task_id))

    observer(StageStarted("rollout", len(attempts) * runner.attempts))
    skill = lesson.footing.skill
    rollouts = await roll_out_numbered(runner, attempts, skill, stage="rollout", done=done)
    refuse_too_many_errors(rollouts, limit, "training")
    means = mean_of(rollouts)
    observer(StageFinished("rollout", score_text(means.hard, means.n)))
    return rollouts


async def _reflect(
    lesson: Lesson[Item], batch: Batch, rollouts: AsyncIterable[Rollout], observer: Observer
) -> tuple[Reflection[Item], ...]:
    there = lesson.session.environment
    if there is not None and there.reflects:
        found = await _reflect_there(lesson, there, batch, rollouts, observer)
    else:
        found = await _analysed(lesson, rollouts, observer)
    found = screened(found, lesson.skill, lesson.desk.refuse, observer)
    edits = sum(len(one.patch.edits) for one in found)
    observer(StageFinished("reflect", f"{plural(edits, lesson.mode.noun)} proposed"))
    return found


async def _reflect_there(
    lesson: Lesson[Item],
    there: Environment,
    batch: Batch,
    rollouts: AsyncIterable[Rollout],
    observer: Observer,
) -> tuple[Reflection[Item], ...]:
    """What the environment itself makes of a whole batch, once that is there."""
    config = lesson.session.config
    return await reflect_there(
        there,
        [one async for one in rollouts],
        lesson.skill,
        mode=lesson.mode,
        gradient=config.gradient,
        learning_rate=analyst_budget(config.optimizer),
        seed=batch.seed,
        desk=replace(lesson.desk, observer=observer),
        notes_from=notes_from(config.optimizer),
    )


async def _analysed(
    lesson: Lesson[Item], rollouts: AsyncIterable[Rollout], observer: Observer
) -> tuple[Reflection[Item], ...]:
    """What our analysts make of the attempts, a minibatch as soon as it is complete."""
    session, config = lesson.session, lesson.session.config
    return await reflect(
        rollouts,
        {task.id: task for task in session.splits.train},
        lesson.skill,
        former=lesson.footing.skill,
        mode=lesson.mode,
        gradient=config.gradient,
        learning_rate=analyst_budget(config.optimizer),
        desk=replace(lesson.desk, observer=observer),
        notes_from=notes_from(config.optimizer),
    )
