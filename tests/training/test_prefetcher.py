"""Prefetching, attempt by attempt: the order of events is in the test's hands."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.aio import Scheduler
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.prefetcher import Prefetcher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def order(name: str, skill: str = "Do.\n", attempt: int = 0) -> AttemptRequest:
    return AttemptRequest(Task(name, ()), skill, "rollout", attempt)


@dataclass
class Hands:
    """Makes attempts, each as long as it is told to take."""

    asked: list[str] = field(default_factory=list)
    ends: defaultdict[str, asyncio.Event] = field(
        default_factory=lambda: defaultdict(asyncio.Event)
    )
    failure: Exception | None = None

    async def __call__(self, one: AttemptRequest) -> None:
        self.asked.append(one.task.id)
        await self.ends[one.task.id].wait()
        if self.failure is not None:
            raise self.failure

    async def finish(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
        await turns()


async def turns(count: int = 6) -> None:
    """Let everything go on that can."""
    for _ in range(count):
        await asyncio.sleep(0)


def played(scenario: Callable[[Prefetcher, Hands, Scheduler], Awaitable[None]]) -> None:
    """Play ``scenario`` with two places for attempts and one for questions."""

    async def play() -> None:
        hands, scheduler = Hands(), Scheduler(2, 1, moment=0)
        prefetcher = Prefetcher(hands, scheduler)
        await scenario(prefetcher, hands, scheduler)
        await prefetcher.close(patient=False)

    asyncio.run(play())


def test_expect_begins_sure_attempts_in_free_slots_once():
    async def scenario(prefetcher: Prefetcher, hands: Hands, _: Scheduler) -> None:
        prefetcher.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        assert hands.asked == ["a", "b"]
        await hands.finish("a", "b", "c")
        prefetcher.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        assert hands.asked == ["a", "b", "c"]

    played(scenario)


def test_begun_waits_for_an_attempt_under_way():
    async def scenario(prefetcher: Prefetcher, hands: Hands, _: Scheduler) -> None:
        prefetcher.expect([order("a")], sure=True)
        await turns()
        needs = asyncio.create_task(prefetcher.begun(order("a")))
        await turns()
        assert not needs.done()
        await hands.finish("a")
        assert needs.done()

    played(scenario)


def test_begun_leaves_a_waiting_attempt_to_the_caller():
    async def scenario(prefetcher: Prefetcher, hands: Hands, _: Scheduler) -> None:
        prefetcher.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        await prefetcher.begun(order("c"))
        await hands.finish("a", "b", "c")
        assert hands.asked == ["a", "b"]

    played(scenario)


def test_begun_ignores_another_attempt_skill_or_task():
    async def scenario(prefetcher: Prefetcher, hands: Hands, _: Scheduler) -> None:
        prefetcher.expect([order("a")], sure=True)
        await turns()
        for other in (order("a", attempt=1), order("a", skill="Do not.\n"), order("b")):
            await asyncio.wait_for(prefetcher.begun(other), 5)
        assert hands.asked == ["a"]

    played(scenario)


def test_expect_begins_unsure_attempts_in_spare_slots_only():
    async def scenario(prefetcher: Prefetcher, hands: Hands, scheduler: Scheduler) -> None:
        prefetcher.expect([order("a")], sure=False)
        await turns()
        assert hands.asked == []
        async with scheduler.questions.slot():
            await turns()
            assert hands.asked == ["a"]

    played(scenario)


def test_expect_promotes_an_attempt_to_sure():
    async def scenario(prefetcher: Prefetcher, hands: Hands, _: Scheduler) -> None:
        prefetcher.expect([order("a")], sure=False)
        await turns()
        prefetcher.expect([order("a")], sure=True)
        await turns()
        assert hands.asked == ["a"]

    played(scenario)


def test_expect_forgets_waiting_attempts_and_finishes_begun_ones():
    async def scenario(prefetcher: Prefetcher, hands: Hands, _: Scheduler) -> None:
        prefetcher.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        prefetcher.expect([order("d")], sure=True)
        await hands.finish("a", "b", "c")
        assert hands.asked == ["a", "b", "d"]

    played(scenario)


def test_begun_raises_what_went_wrong():
    async def scenario(prefetcher: Prefetcher, hands: Hands, _: Scheduler) -> None:
        hands.failure = ModelSetupError("no such model")
        prefetcher.expect([order("a"), order("b")], sure=True)
        await hands.finish("a", "b")
        with pytest.raises(ModelSetupError, match="no such model"):
            await prefetcher.begun(order("a"))

    played(scenario)


def test_close_cancels_without_patience():
    async def scenario(prefetcher: Prefetcher, hands: Hands, scheduler: Scheduler) -> None:
        prefetcher.expect([order("a")], sure=True)
        await turns()
        await asyncio.wait_for(prefetcher.close(patient=False), 5)
        assert scheduler.attempts.taken == 0

    played(scenario)


def test_close_with_patience_finishes_what_is_under_way():
    async def scenario(prefetcher: Prefetcher, hands: Hands, scheduler: Scheduler) -> None:
        prefetcher.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        closing = asyncio.create_task(prefetcher.close(patient=True))
        await turns()
        assert not closing.done()
        await hands.finish("a", "b", "c")
        assert closing.done()
        assert hands.asked == ["a", "b"]

    played(scenario)
