"""Shards: distribute the attempts of the next piece of work over machines.

A shard's answers go into the cache of the machine that does the step, which then works as usual.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.config.config import Limits
from skillopt_ci.errors import UsageError
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.cache import UNCLAIMED, CallCache, export_answers, import_answers
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.training.prefetcher import Outlook
from skillopt_ci.training.run_context import Run, equipped

_SHARD = re.compile(r"([1-9]\d{0,4})/([1-9]\d{0,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """One of ``of`` parts, numbered from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read ``2/4``; raises UsageError."""
        if (found := _SHARD.fullmatch(text)) is None or int(found[1]) > int(found[2]):
            raise UsageError(f"{text!r} names no shard: expected I/N, such as 2/4.")
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
    run.observer(StageFinished("rollout", f"{len(mine)} attempts, {errors} not measured"))
    return ShardOutcome(len(mine), errors, answers, meter.total())


def take_over(run: Run, files: Iterable[Path]) -> int:
    """Add the answers of shards to the cache; return how many. UsageError for invalid files."""
    with _stores(run) as (cache, attempts):
        return import_answers(cache, files, attempts.take)


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
