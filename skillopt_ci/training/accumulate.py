"""Accumulate: the batches of a step are worked on at the same time, and keep their order."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillopt_ci.aio import map_ordered
from skillopt_ci.ledger.records import BatchRecord
from skillopt_ci.progress import Event, Observer, StageEvent
from skillopt_ci.rollout.metrics import aggregate
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.training.patch import Reflection
from skillopt_ci.training.plan import Batch

Work = Callable[[Batch, Observer], Awaitable[tuple[Sequence[Rollout], Sequence[Reflection[Any]]]]]


@dataclass(frozen=True, slots=True)
class WorkedBatch:
    """A batch with its rollouts and what the analysts made of them."""

    batch: Batch
    rollouts: Sequence[Rollout]
    reflections: Sequence[Reflection[Any]]


async def work_on(batches: Sequence[Batch], work: Work, observer: Observer) -> list[WorkedBatch]:
    """Roll out and reflect on all ``batches`` at once; the results are in the batches' order.

    Of several batches each reports its stages under a number of its own.
    """

    async def one(numbered: tuple[int, Batch]) -> WorkedBatch:
        number, batch = numbered
        return WorkedBatch(batch, *await work(batch, _numbered(observer, number, len(batches))))

    return await map_ordered(one, enumerate(batches, start=1), limit=len(batches))


def batch_record(worked: WorkedBatch) -> BatchRecord:
    """What is remembered of one batch."""
    means = aggregate(worked.rollouts)
    sources = [one.source_type for one in worked.reflections if one.patch.edits]
    return BatchRecord(
        seed=worked.batch.seed,
        hard=means.hard,
        soft=means.soft,
        n=means.n,
        n_failure_patches=sources.count("failure"),
        n_success_patches=sources.count("success"),
    )


def _numbered(observer: Observer, number: int, count: int) -> Observer:
    if count == 1:
        return observer

    def observe(event: Event) -> None:
        if isinstance(event, StageEvent):
            observer(replace(event, stage=f"{event.stage} {number}/{count}"))
        else:
            observer(event)

    return observe
