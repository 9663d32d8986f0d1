"""Learning from a batch: attempts at its tasks, and analysts who read them as they come."""

import asyncio
import random
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skillopt_ci.aio import Begun, map_ordered
from skillopt_ci.ledger.records import BatchRecord
from skillopt_ci.progress import (
    Event,
    Observer,
    StageAdvanced,
    StageEvent,
    StageFinished,
    StageStarted,
)
from skillopt_ci.rollout.metrics import aggregate as mean_of
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task
from skillopt_ci.text import plural, score_text
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.guard import screened
from skillopt_ci.training.measure import made_under, next_rounds, rounds
from skillopt_ci.training.memory import step_records
from skillopt_ci.training.plan import Batch, analyst_budget
from skillopt_ci.training.reflect import Analysts
from skillopt_ci.training.replies import Reflection
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import Checkout, basis_of, basis_sha256
from skillopt_ci.training.update import UpdateMode, notes_from

# Evidence: earlier attempts under the same skill, which analysts look at beside a step's own.

#: Attempts under one skill, oldest first: the task's id and the attempt's number.
Made = Sequence[tuple[str, int]]


def attempts_so_far(
    run: Run, checkout: Checkout, skill: str | None = None, *, comparable: bool = False
) -> Made:
    name = sha256(checkout.skill if skill is None else skill)
    basis = basis_sha256(basis_of(run)) if comparable else None
    return made_under(name, basis, step_records(run, checkout))


class Arrivals:
    """The results of the attempts ``expected``, in that order, each as soon as its turn has come.

    It belongs to one event loop and is taken from once.
    """

    def __init__(self, expected: Iterable[AttemptRequest]) -> None:
        loop = asyncio.get_running_loop()
        self._results = {(one.task.id, one.attempt): loop.create_future() for one in expected}
        self._end: asyncio.Future[None] = loop.create_future()

    def came(self, rollout: Rollout) -> None:
        result = self._results[rollout.task_id, rollout.attempt]
        if not result.done():
            result.set_result(rollout)

    @contextmanager
    def complete(self) -> Iterator[None]:
        """Nothing comes after the body; a failure of it is that of the arrivals."""
        try:
            yield
        except Exception as failure:
            self._end.set_exception(failure)
            self._end.exception()  # whoever made the attempts raises it, taken or not
            raise
        self._end.set_result(None)

    async def in_order(self) -> AsyncIterator[Rollout]:
        """Yield each result when its turn has come; raises the failure that ended them."""
        for result in self._results.values():
            await asyncio.wait((result, self._end), return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                break
            yield result.result()
        await self._end


@dataclass(frozen=True, slots=True)
class WorkedBatch:
    batch: Batch
    rollouts: Sequence[Rollout]
    reflections: Sequence[Reflection[Any]]
    lost: Sequence[Lost] = ()
    """Questions and patches of which no reflection came."""


async def learn(
    run: Run,
    checkout: Checkout,
    batch: Batch,
    mode: UpdateMode[Any],
    chat: OptimizerChat,
    models: OpenModels,
    *,
    recalls: bool,
) -> WorkedBatch:
    """Attempt the tasks of ``batch`` and reflect on them; the attempts are in its order.

    Attempts begin in the order in which analysts read them, which the batch's seed gives: so the
    first minibatch is complete long before the last attempt. With ``recalls`` analysts read earlier
    attempts first.
    """
    config, skill, observer, runner = run.config, checkout.skill, chat.observer, models.runner
    each, tasks = runner.attempts, {task.id: task for task in run.splits.train}
    fresh = next_rounds(dealt(batch), attempts_so_far(run, checkout), each)
    attempts = rounds(fresh, skill, "rollout", each)
    arrivals = Arrivals(attempts)

    def done(rollout: Rollout) -> None:
        arrivals.came(rollout)
        observer(StageAdvanced("rollout", rollout.task_id))

    async def roll_out(_: int) -> tuple[Rollout, ...]:
        with arrivals.complete():
            observer(StageStarted("rollout", len(attempts)))
            made = await runner.carry_out(attempts, done)
            refuse_too_many_errors(made, config.evaluation.max_error_rate, "training")
            means = mean_of(made)
            observer(StageFinished("rollout", score_text(means.hard, means.n)))
            return made

    async def remember(most: int) -> tuple[Rollout, ...]:
        comparable = attempts_so_far(run, checkout, comparable=True) if most > 0 else ()
        made = dict.fromkeys((name, number // each) for name, number in comparable if name in tasks)
        latest = [(tasks[name], number) for name, number in made][-most:]
        return await runner.carry_out(rounds(latest, skill, "rollout", each))

    room = config.gradient.evidence - len(attempts)
    async with Begun(roll_out) as rolling, Begun(remember) as recalling:
        rolling.begin(batch.seed)
        earlier = recalling.result(room if recalls else 0)
        readable = _after(earlier, arrivals)
        analysts = Analysts(
            mode,
            chat,
            tasks,
            skill,
            config.gradient,
            analyst_budget(config.optimizer),
            notes_from(config.optimizer),
        )
        reflections, lost = await _reflect(run, batch, readable, analysts)
        rollouts = await rolling.result(batch.seed)
    places = {task.id: number for number, task in enumerate(batch.tasks)}
    ordered = tuple(sorted(rollouts, key=lambda one: places[one.task_id]))
    return WorkedBatch(batch, ordered, reflections, lost)


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


async def _reflect(
    run: Run, batch: Batch, rollouts: AsyncIterable[Rollout], analysts: Analysts[Any]
) -> tuple[Sequence[Reflection[Any]], Sequence[Lost]]:
    if run.environment is not None and run.environment.reflects:
        made = [one async for one in rollouts]
        results = await analysts.reflect_there(run.environment, made, batch.seed)
    else:
        results = await analysts.reflect(rollouts)
    chat = analysts.chat
    usable = [one for one in results if isinstance(one, Reflection)]
    reflections = screened(usable, analysts.skill, chat.refuse, chat.observer)
    edits = sum(len(one.patch.edits) for one in reflections)
    noun = analysts.mode.noun
    chat.observer(StageFinished("reflect", f"{plural(edits, noun)} proposed"))
    return reflections, [one for one in results if isinstance(one, Lost)]


# Accumulate: the batches of a step are worked on at the same time, and keep their order.

Work = Callable[[Batch, Observer], Awaitable[WorkedBatch]]


async def work_on(batches: Sequence[Batch], work: Work, observer: Observer) -> list[WorkedBatch]:
    """Roll out and reflect on all ``batches`` at once; each reports under its number."""
    many = len(batches)
    observers = [partial(_numbered, observer, f"{n}/{many}") for n in range(1, many + 1)]

    async def one(number: int) -> WorkedBatch:
        return await work(batches[number], observers[number] if many > 1 else observer)

    return await map_ordered(one, range(many), limit=many)


def batch_record(worked: WorkedBatch) -> BatchRecord:
    means = mean_of(worked.rollouts)
    sources = [one.source_type for one in worked.reflections if one.patch.edits]
    return BatchRecord(
        seed=worked.batch.seed,
        hard=means.hard,
        soft=means.soft,
        n=means.n,
        n_failure_patches=sources.count("failure"),
        n_success_patches=sources.count("success"),
    )


def _numbered(observer: Observer, number: str, event: Event) -> None:
    if isinstance(event, StageEvent):
        event = replace(event, stage=f"{event.stage} {number}")
    observer(event)
