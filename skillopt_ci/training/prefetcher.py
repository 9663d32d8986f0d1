"""Prefetch: rollouts that are sure to be needed are made before the work that needs them.

The prefetcher listens to the trainer; no stage knows of it. A prefetched attempt is found where all
are kept, in the cache of calls and in the store of attempts, unclaimed: the work that needs it
accounts for it, as for what another machine made. So no record depends on what was prefetched.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from skillopt_ci.aio import Scheduler
from skillopt_ci.config.config import Config
from skillopt_ci.config.rollout import ChatConfig, HumanConfig, LocalExecutor
from skillopt_ci.errors import SkilloptError
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED
from skillopt_ci.progress import CallPaid
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import reading_sha256
from skillopt_ci.training.attempts import made_under
from skillopt_ci.training.evaluate import first_attempts, known_measurement, overused
from skillopt_ci.training.memory import all_steps
from skillopt_ci.training.prefetch_plan import (
    earlier_side,
    epoch_end_before_batch,
    look_beyond,
)
from skillopt_ci.training.rollout_stage import attempts_so_far
from skillopt_ci.training.run_context import Bench, Run, equipped
from skillopt_ci.training.trainer import (
    CandidateProposed,
    Decided,
    EvaluationAsked,
    Proposing,
)

#: What tells attempts apart: task, skill as it is read, number.
_Key = tuple[str, str, int]


@asynccontextmanager
async def prefetching(run: Run) -> AsyncIterator[Run]:
    """The run, with what `schedule.ahead` lets be made early until the context ends."""
    async with equipped(run) as ready, AsyncExitStack() as resources:
        equipment = ready.equipment
        if equipment is None or not may_prefetch(run.config):
            yield ready
            return
        prefetcher = Prefetcher(_Maker(_recording(ready), resources), equipment.scheduler)
        patient = False
        try:
            yield replace(
                ready, listen=lambda event: hear(ready, prefetcher, event), begun=prefetcher.begun
            )
            patient = True
        except SkilloptError:
            patient = True
            raise
        finally:
            await prefetcher.close(patient=patient)


def may_prefetch(config: Config) -> bool:
    """Whether attempts may be made early.

    Not where each call is weighed, where nothing is kept, where others share attempts out, and
    where people make them.
    """
    limits = (config.budget.run, config.budget.step)
    return (
        config.schedule.ahead != "none"
        and config.cache.enabled
        and isinstance(config.rollout.executor, LocalExecutor)
        and not isinstance(config.rollout.solver, HumanConfig)
        and all(limit is None for one in limits for limit in (one.calls, one.tokens, one.cost_usd))
    )


def hear(run: Run, prefetcher: "Prefetcher", event: object) -> None:
    """Expect the rollouts that follow from what the trainer does."""
    match event:
        case Proposing(after=after) | EvaluationAsked(after=after):
            # of two epochs that are compared next, one is over whatever the decision
            epoch = epoch_end_before_batch(run, after)
            if epoch is not None and epoch > 1:
                prefetcher.expect(earlier_side(run, after, epoch), sure=False)
        case CandidateProposed(standing, candidate, evaluation):
            known = known_measurement(run, standing, candidate.skill)
            if known is None and not overused(run, standing):
                first = first_attempts(run, standing, candidate.skill, evaluation)
                prefetcher.expect(first, sure=True)
        case Decided(standing, after, record):
            made = attempts_so_far(run, after)
            if isinstance(record, StepRecord):  # which no commit has yet
                records = (*all_steps(run, standing), record)
                made = made_under(sha256(after.skill), None, records)
            outlook = look_beyond(run, after, made)
            prefetcher.expect(() if outlook is None else outlook.attempts, sure=True)


def _recording(run: Run) -> Run:
    """Only agents' events are recorded: a chat answer is, whole, by the work that needs it."""
    chats = run.environment is None and isinstance(run.config.rollout.solver, ChatConfig)
    return replace(run, events=None) if chats else run


class _Maker:
    """Makes single attempts with a bench that is opened for the first of them."""

    def __init__(self, run: Run, resources: AsyncExitStack) -> None:
        self._session = run
        self._resources = resources
        self._bench: Bench | None = None
        self._opening = asyncio.Lock()

    async def __call__(self, order: AttemptRequest) -> None:
        run = self._session
        async with self._opening:
            if self._bench is None:
                meter = Meter(
                    clock=run.clock,
                    told=lambda usage: run.observer(CallPaid(usage.tokens, usage.cost_usd)),
                )
                opened = run.bench(UNCLAIMED, meter)
                self._bench = await self._resources.enter_async_context(opened)
        runner = self._bench.runner
        await runner.executor(order, runner.attempting)


@dataclass(slots=True)
class _Early:
    """An attempt that is to be made early."""

    order: AttemptRequest
    sure: bool
    begun: bool = False
    taken: bool = False
    made: bool = False
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)


class Prefetcher:
    """Makes attempts early, by ``make``.

    Whether an attempt is begun is decided as late as there is a place for it; until then it can be
    taken back. One that is under way is never broken off: it is paid for.
    """

    def __init__(
        self, make: Callable[[AttemptRequest], Awaitable[None]], scheduler: Scheduler
    ) -> None:
        self._make = make
        self._scheduler = scheduler
        self._known: dict[_Key, _Early] = {}
        self._names: dict[str, str] = {}

    def expect(self, orders: Iterable[AttemptRequest], *, sure: bool) -> None:
        """Make ``orders`` from now on; what was expected and is not begun is forgotten.

        Those that are ``sure`` are made as soon as there are places, the others in places that
        stay empty; then what is expected already stays expected.
        """
        wanted = {self._key(order): order for order in orders}
        for key, early in list(self._known.items()):
            if (not early.begun and (key not in wanted or sure)) or (early.taken and early.made):
                self._forget(key, early)
        self._names = {order.skill: key[1] for key, order in wanted.items()}
        for key, order in wanted.items():
            if key not in self._known:
                self._known[key] = early = _Early(order, sure)
                early.task = asyncio.create_task(self._work(early))

    async def begun(self, order: AttemptRequest) -> None:
        """Return when ``order`` is not under way; raises what went wrong with it.

        Either it was made, or the caller is to make it.
        """
        key = self._key(order)
        early = self._known.get(key)
        if early is None or early.task is None:
            return
        if not early.begun:
            self._forget(key, early)
            return
        early.taken = True
        await asyncio.shield(early.task)

    async def close(self, *, patient: bool) -> None:
        """End it: with patience, what is under way is let finish, since it is paid for."""
        self.expect((), sure=True)
        tasks = [early.task for early in self._known.values() if early.task is not None]
        if not patient:
            for task in tasks:
                task.cancel()
        # what failed is raised to who needs it; nobody does
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, early: _Early) -> None:
        places = self._scheduler
        async with places.attempts.slot() if early.sure else places.spare():
            early.begun = True
            await self._make(early.order)
            early.made = True

    def _forget(self, key: _Key, early: _Early) -> None:
        del self._known[key]
        if early.task is not None:
            early.task.cancel()

    def _key(self, order: AttemptRequest) -> _Key:
        name = self._names.get(order.skill)
        if name is None:
            name = self._names[order.skill] = reading_sha256(order.skill)
        return order.task.id, name, order.attempt
