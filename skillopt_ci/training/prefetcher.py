"""Make rollouts ahead that are sure to be needed: prefetched, or as shards on other machines.

The prefetcher listens to the trainer; no stage knows of it. A prefetched attempt is stored
unclaimed and charged to the work that uses it, so no record depends on what was prefetched.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Literal

from skillopt_ci.aio import Slots
from skillopt_ci.config.config import Config, Limits
from skillopt_ci.config.rollout import ChatConfig, HumanConfig, LocalExecutor
from skillopt_ci.errors import SkilloptError, UsageError
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED, CallCache, export_answers, import_answers
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.skill.regions import reading_sha256
from skillopt_ci.training.baseline import as_scored, unscored_texts
from skillopt_ci.training.confirm import due_test
from skillopt_ci.training.evaluate import first_attempts, known_snapshot
from skillopt_ci.training.final_evaluation import finish_due
from skillopt_ci.training.measure import next_rounds, round_of, rounds
from skillopt_ci.training.plan import boundary_due, last_step_of, plan_step, shuffled
from skillopt_ci.training.rollout_stage import attempts_so_far
from skillopt_ci.training.run_context import OpenModels, Run, equipped
from skillopt_ci.training.slow_update import earlier_skill, first_epoch, sampling_seed
from skillopt_ci.training.state import ScoredCheckout, candidate_at, find_checkout
from skillopt_ci.training.trainer import CandidateProposed, Decided

#: Identifies an attempt: task, skill as read, number.
_Key = tuple[str, str, int]

# called for every attempt, with two or three different skills
_reading = lru_cache(8)(reading_sha256)


@asynccontextmanager
async def prefetching(run: Run) -> AsyncIterator[Run]:
    """The run, prefetching what `schedule.ahead` allows until the context ends."""
    async with equipped(run) as (ready, equipment), AsyncExitStack() as resources:
        if not may_prefetch(run.config):
            yield ready
            return
        # record events of agents only; the work that needs a chat answer records all of it
        chats = run.environment is None and isinstance(run.config.rollout.solver, ChatConfig)
        maker = replace(ready, events=None) if chats else ready
        opening, opened = asyncio.Lock(), list[OpenModels]()

        async def make(request: AttemptRequest) -> None:
            async with opening:
                if not opened:
                    meter = Meter(clock=run.clock, observe=run.observer)
                    models = equipment.models(maker, UNCLAIMED, meter)
                    opened.append(await resources.enter_async_context(models))
            await opened[0].runner.attempting(request)

        prefetcher = Prefetcher(make, equipment.attempts)
        try:
            yield replace(
                ready, listen=lambda event: hear(ready, prefetcher, event), join=prefetcher.join
            )
        except BaseException as error:
            await prefetcher.close(patient=isinstance(error, SkilloptError))
            raise
        await prefetcher.close(patient=True)


def may_prefetch(config: Config) -> bool:
    limits = (config.budget.run, config.budget.step)
    return (
        config.schedule.ahead != "none"
        and config.cache.enabled
        and isinstance(config.rollout.executor, LocalExecutor)
        and not isinstance(config.rollout.solver, HumanConfig)
        and all(limit is None for one in limits for limit in (one.calls, one.tokens, one.cost_usd))
    )


def hear(run: Run, prefetcher: "Prefetcher", event: object) -> None:
    match event:
        case CandidateProposed(checkout, candidate):
            if first := first_attempts(run, checkout, candidate):
                prefetcher.expect(first)
        case Decided(after, record):
            # this step is not committed yet
            latest = (record,) if isinstance(record, StepRecord) else ()
            outlook = look_beyond(run, after, *latest)
            prefetcher.expect(outlook.attempts if outlook else (), tests_due(run, after))


@dataclass(eq=False)
class Prefetcher:
    """Makes attempts early; only :meth:`close` may cancel one under way, since it is paid for."""

    make: Callable[[AttemptRequest], Awaitable[None]]
    slots: Slots
    _known: dict[_Key, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _begun: set[_Key] = field(default_factory=set, init=False)

    def expect(
        self, requests: Iterable[AttemptRequest], later: Iterable[AttemptRequest] = ()
    ) -> None:
        # they replace what is queued; what has begun goes on
        for key in self._known.keys() - self._begun:
            self._known.pop(key).cancel()
        # the later ones one at a time, so that the work at hand waits for no more than one of them
        for queue, group in ((nullcontext(), requests), (asyncio.Lock(), later)):
            for request in group:
                if (key := self._key(request)) not in self._known:
                    self._known[key] = asyncio.create_task(self._work(key, request, queue))

    async def join(self, request: AttemptRequest) -> None:
        """Wait until ``request``, if under way, is done or has failed; drop it if it is queued."""
        key = self._key(request)
        if key in self._begun:
            await asyncio.wait([self._known[key]])
        elif key in self._known:
            self._known.pop(key).cancel()

    async def close(self, *, patient: bool) -> None:
        """Stop; if ``patient``, let attempts under way finish, since they are paid for."""
        self.expect(())
        tasks = [*self._known.values()]
        if not patient:
            for task in tasks:
                task.cancel()
        # ignore failures: nothing needs these attempts any more
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(
        self, key: _Key, request: AttemptRequest, queue: asyncio.Lock | nullcontext[None]
    ) -> None:
        async with queue:
            await self.slots.acquire()
        try:
            self._begun.add(key)
            await self.make(request)
        finally:
            self.slots.release()

    def _key(self, request: AttemptRequest) -> _Key:
        return request.task.id, _reading(request.skill), request.attempt


# The rollouts that the next piece of work begins with, for `plan`, shards and the prefetcher.


@dataclass(frozen=True, slots=True)
class Outlook:
    """The next piece of work, for or after step ``step``, in a run that has used ``spent``."""

    phase: Literal["measure", "rollout", "evaluation", "comparison", "test"]
    step: int
    attempts: tuple[AttemptRequest, ...]
    spent: Usage


def look_ahead(run: Run) -> Outlook | None:
    """The next piece of work, determined without writing anything; None if nothing is left."""
    position = run.ledger.sync()
    checkout = find_checkout(run.ledger, run.skill_path, position)
    texts = unscored_texts(run, checkout)
    if checkout.state is None or texts:
        step = 1 if checkout.state is None else checkout.state.step + 1
        each = (round_of(run, run.selection, text, "selection") for text in texts)
        return Outlook("measure", step, tuple(chain.from_iterable(each)), checkout.spent)
    scored = as_scored(checkout, checkout.state)
    if (candidate := candidate_at(run, scored, position.candidate)) is not None:
        known = known_snapshot(run, scored, candidate.skill)
        asked = frozenset[str]() if known is None else known.measurement.asked
        tasks = [task for task in run.selection if task.id not in asked]
        attempts = round_of(run, tasks, candidate.skill, "selection")
        spent = scored.spent + candidate.record.usage
        return Outlook("evaluation", candidate.record.step, attempts, spent)
    last = Outlook("test", scored.state.step, (), scored.spent)
    due = finish_due(run, scored) or due_test(run, scored, over=True) is not None
    return look_beyond(run, scored) or (last if due else None)


def look_beyond(run: Run, checkout: ScoredCheckout, *uncommitted: StepRecord) -> Outlook | None:
    """The next work if no candidate is in flight, after steps that are ``uncommitted``."""
    epoch = boundary_due(run, checkout)
    if epoch is None or run.config.schedule.slow_update != "inline":
        return _rollout(run, checkout, *uncommitted)
    step, spent = checkout.state.step, checkout.spent
    if epoch > 1:
        drawn = shuffled(run.splits.train, sampling_seed(run, epoch))
        drawn = drawn[: run.config.optimizer.slow_update_samples]
        both = dict.fromkeys((earlier_skill(run, checkout, epoch), checkout.skill))
        sides = (round_of(run, drawn, skill, "slow_rollout") for skill in both)
        return Outlook("comparison", step, tuple(chain.from_iterable(sides)), spent)
    # The first epoch's end calls no model, but it may add a region for guidance to the skill.
    skill, _ = first_epoch(run, checkout)
    rollout = _rollout(run, replace(checkout, skill=skill), *uncommitted)
    return rollout or Outlook("comparison", step, (), spent)


def tests_due(run: Run, checkout: ScoredCheckout) -> tuple[AttemptRequest, ...]:
    """The tests that end the run whatever is decided: the initial skill's from the last epoch on.

    Once no step is left, also the last skill's, which is still to be confirmed.
    """
    step, last = checkout.state.step + 1, last_step_of(run, checkout)
    now, end = (
        plan_step(run.splits.train, run.config.train, n, checkout.state) for n in (step, last)
    )
    inline = run.config.schedule.slow_update == "inline"  # a scheduled end may come before
    tested = any(one.kind == "finish" for one in checkout.history)  # and its scores may stand
    if not run.tested_under or tested or not inline or now.epoch < end.epoch:
        return ()
    initial = run.ledger.read(checkout.commit, run.folder.initial_skill) or ""
    tests = round_of(run, run.test, initial, "test first")
    if step <= last or boundary_due(run, checkout) is not None:
        return tests
    return tests + round_of(run, run.test, checkout.skill, "test last")


def _rollout(run: Run, checkout: ScoredCheckout, *uncommitted: StepRecord) -> Outlook | None:
    step, each = checkout.state.step + 1, run.config.rollout.attempts
    if step > last_step_of(run, checkout):
        return None
    plan = plan_step(run.splits.train, run.config.train, step, checkout.state)
    tasks = (task for batch in plan.batches for task in batch.tasks)
    fresh = next_rounds(tasks, attempts_so_far(run, checkout, *uncommitted), each)
    return Outlook("rollout", step, rounds(fresh, checkout.skill, "rollout", each), checkout.spent)


# Shards: several machines make these attempts, for the cache of the one that does the step.

_SHARD = re.compile(r"([1-9]\d{0,4})/([1-9]\d{0,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    number: int  # from 1
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``2/4``; raises UsageError."""
        if (found := _SHARD.fullmatch(text)) is None or int(found[1]) > int(found[2]):
            raise UsageError(f"{text!r} is not a shard: expected I/N, such as 2/4.")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True)
class ShardOutcome:
    attempts: int
    errors: int
    answers: int
    usage: Usage


def shards(outlook: Outlook, most: int) -> tuple[Shard, ...]:
    of = max(1, min(most, len(outlook.attempts)))
    return tuple(Shard(number, of) for number in range(1, of + 1))


async def roll_out_shard(run: Run, outlook: Outlook, shard: Shard, file: Path) -> ShardOutcome:
    """Make the attempts of ``shard`` within its share of the budgets; write answers to ``file``."""
    mine = sorted(outlook.attempts[shard.number - 1 :: shard.of], key=lambda one: one.attempt)
    budget, spent, keys = run.config.budget, outlook.spent, list[str]()
    meter = Meter(
        step=_share(budget.step, Usage(), shard.of),
        run=_share(budget.run, spent, shard.of),
        spent=spent,
        clock=run.clock,
    )
    run.observer(StageStarted("rollout", len(mine)))
    with _stores(run) as (cache, attempts):
        try:
            async with (
                equipped(run) as (_, equipment),
                equipment.models(run, UNCLAIMED, meter, keys.append) as models,
            ):
                rollouts = await models.runner.carry_out(
                    mine, lambda one: run.observer(StageAdvanced("rollout", one.task_id))
                )
        finally:
            answers = export_answers(cache, keys, file, attempts.lines(keys))
    errors = sum(not one.status.measured for one in rollouts)
    run.observer(StageFinished("rollout", f"{len(mine):,} attempts, {errors:,} not measured"))
    return ShardOutcome(len(mine), errors, answers, meter.total())


def take_over(run: Run, files: Iterable[Path]) -> None:
    """Add the answers of shards to the cache. UsageError for invalid files."""
    with _stores(run) as (cache, attempts):
        import_answers(cache, files, attempts.take)


@contextmanager
def _stores(run: Run) -> Iterator[tuple[CallCache, AttemptStore]]:
    if run.cache_path is None or run.attempts_path is None:
        raise UsageError(
            "Answers can be shared between machines only with a cache.",
            hint="Set cache.enabled to true.",
        )
    with (
        closing(CallCache(run.cache_path, run.observer)) as calls,
        closing(AttemptStore(run.attempts_path, run.observer)) as attempts,
    ):
        yield calls, attempts


def _share(limits: Limits, spent: Usage, of: int) -> Limits:
    used = {"calls": spent.calls, "tokens": spent.tokens, "cost_usd": spent.cost_usd or 0.0}
    shares = dict[str, float]()
    for name, before in used.items():
        if (limit := getattr(limits, name)) is not None:
            left = max(0, limit - before)
            shares[name] = before + (left / of if name == "cost_usd" else left // of)
    return limits.model_copy(update=shares)
