"""Several batches in one step: at once, in order, within the limits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.progress import Note, StageFinished, StageStarted
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training.plan import Batch
from skillopt_ci.training.replies import Patch, Reflection
from skillopt_ci.training.rollout_stage import WorkedBatch, batch_record, work_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skillopt_ci.progress import Event, Observer
    from skillopt_ci.rollout.types import Rollout
    from tests.conftest import Checkout, Workshop

PLAIN = ("optimizer.use_slow_update=false", "optimizer.use_meta_skill=false")
BATCHES = [Batch(seed, ()) for seed in (1, 2, 3)]


def run(
    events: list[Event], roll_out: Callable[[int], object], batches: Sequence[Batch] = BATCHES
) -> list[tuple[int, Sequence[Rollout]]]:
    async def work(batch: Batch, observer: Observer) -> WorkedBatch:
        observer(StageStarted("rollout"))
        await roll_out(batch.seed)
        observer(StageFinished("reflect", str(batch.seed)))
        observer(Note("n"))
        return WorkedBatch(batch, (), ())

    worked = asyncio.run(work_on(batches, work, events.append))
    return [one.batch.seed for one in worked]


def test_results_keep_the_order_whatever_comes_first(events: list[Event]) -> None:
    async def slow(seed: int) -> None:
        for _ in range(10 - 3 * seed):
            await asyncio.sleep(0)

    assert run(events, slow) == [1, 2, 3]
    finished = [event.summary for event in events if isinstance(event, StageFinished)]
    assert finished == ["3", "2", "1"]


def test_a_batch_is_reflected_on_while_others_are_rolled_out(events: list[Event]) -> None:
    async def first_waits_for_the_last(seed: int) -> None:
        while seed == 1 and not any(isinstance(event, StageFinished) for event in events):
            await asyncio.sleep(0)

    assert run(events, first_waits_for_the_last) == [1, 2, 3]


@pytest.mark.parametrize(
    ("count", "stages"), [(1, ["rollout"]), (2, ["rollout 1/2", "rollout 2/2"])]
)
def test_batches_are_told_apart_only_where_there_are_several(
    events: list[Event], count: int, stages: list[str]
) -> None:
    run(events, lambda seed: asyncio.sleep(0), BATCHES[:count])
    assert [event.stage for event in events if isinstance(event, StageStarted)] == stages
    assert events.count(Note("n")) == count


def test_a_batch_remembers_its_patches(make_rollout: Callable[..., Rollout]) -> None:
    rollouts = [make_rollout("a", hard=1.0), make_rollout("b")]
    edit = Patch((Edit("append", "", "x"),))
    kinds = (("failure", edit), ("failure", Patch()), ("success", edit))
    reflections = [Reflection(kind, patch, ("a",), 1) for kind, patch in kinds]
    record = batch_record(WorkedBatch(Batch(9, ()), rollouts, reflections))
    assert (record.seed, record.hard, record.n) == (9, 0.5, 2)
    assert (record.n_failure_patches, record.n_success_patches) == (1, 1)


def test_a_step_joins_its_batches(checkout: Checkout) -> None:
    overrides = (*PLAIN, "train.num_epochs=1", "train.batch_size=2", "train.accumulation=2")
    checkout.run(*overrides)
    proposal = checkout.record(1).proposal
    assert len(checkout.kinds()) == 3
    assert [batch.n for batch in proposal.batches] == [2, 2]
    assert [batch.seed for batch in proposal.batches] == [1043, 1044]
    assert proposal.rollout.n == 4


def test_concurrency_changes_nothing(workshop: Workshop) -> None:
    overrides = (*PLAIN, "train.num_epochs=1", "train.batch_size=2", "train.accumulation=4")
    one, many = workshop.checkout("one"), workshop.checkout("many")
    one.run(*overrides, "model.target.max_concurrency=1", "gradient.analyst_workers=1")
    many.run(*overrides)
    assert one.trees() == many.trees()
