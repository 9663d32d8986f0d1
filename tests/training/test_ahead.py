"""Attempts that are made early, one by one: the order of events is in the test's hands."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.aio import Scheduler
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.prefetcher import NothingAhead, WorkAhead

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

    async def __call__(self, one: AttemptRequest) -> Usage:
        self.asked.append(one.task.id)
        await self.ends[one.task.id].wait()
        if self.failure is not None:
            raise self.failure
        return Usage(calls=1, prompt_tokens=10)

    async def finish(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
        await turns()


async def turns(count: int = 6) -> None:
    """Let everything go on that can."""
    for _ in range(count):
        await asyncio.sleep(0)


def played(scenario: Callable[[WorkAhead, Hands, Scheduler], Awaitable[None]]) -> None:
    """Play ``scenario`` with two places for attempts and one for questions."""

    async def play() -> None:
        hands, scheduler = Hands(), Scheduler(2, 1, moment=0)
        ahead = WorkAhead(hands, scheduler, "likely")
        await scenario(ahead, hands, scheduler)
        await ahead.close(patient=False)

    asyncio.run(play())


def test_what_is_sure_is_begun_where_there_is_a_place_and_made_once() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        ahead.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        assert hands.asked == ["a", "b"]
        await hands.finish("a", "b", "c")
        ahead.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        assert hands.asked == ["a", "b", "c"]

    played(scenario)


def test_who_needs_an_attempt_waits_for_it_if_it_is_under_way() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        ahead.expect([order("a")], sure=True)
        await turns()
        needs = asyncio.create_task(ahead.begun(order("a")))
        await turns()
        assert not needs.done()
        await hands.finish("a")
        assert needs.done()

    played(scenario)


def test_who_needs_an_attempt_that_is_not_begun_makes_it() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        ahead.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        await ahead.begun(order("c"))
        await hands.finish("a", "b", "c")
        assert hands.asked == ["a", "b"]

    played(scenario)


def test_another_attempt_or_skill_is_another_order() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        ahead.expect([order("a")], sure=True)
        await turns()
        for other in (order("a", attempt=1), order("a", skill="Do not.\n"), order("b")):
            await asyncio.wait_for(ahead.begun(other), 5)
        assert hands.asked == ["a"]

    played(scenario)


def test_what_is_likely_waits_for_a_place_that_stays_empty() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, scheduler: Scheduler) -> None:
        ahead.expect([order("a")], sure=False)
        await turns()
        assert hands.asked == []
        async with scheduler.questions.slot():
            await turns()
            assert hands.asked == ["a"]

    played(scenario)


def test_what_turns_out_to_be_sure_waits_no_longer() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        ahead.expect([order("a")], sure=False)
        await turns()
        ahead.expect([order("a")], sure=True)
        await turns()
        assert hands.asked == ["a"]

    played(scenario)


def test_what_is_expected_no_more_is_not_begun_but_never_broken_off() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        ahead.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        ahead.expect([order("d")], sure=True)
        await hands.finish("a", "b", "c")
        assert hands.asked == ["a", "b", "d"]
        assert ahead.lost() == Usage(calls=2, prompt_tokens=20)

    played(scenario)


def test_lost_is_told_once_and_neither_what_was_used_nor_what_is_wanted() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        ahead.expect([order("a"), order("b")], sure=True)
        await turns()
        await hands.finish("a", "b")
        await ahead.begun(order("a"))
        assert ahead.lost() == Usage()
        ahead.expect([], sure=True)
        assert ahead.lost() == Usage(calls=1, prompt_tokens=10)
        assert ahead.lost() == Usage()

    played(scenario)


def test_what_went_wrong_is_told_to_who_needs_it() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, _: Scheduler) -> None:
        hands.failure = ModelSetupError("no such model")
        ahead.expect([order("a"), order("b")], sure=True)
        await hands.finish("a", "b")
        with pytest.raises(ModelSetupError, match="no such model"):
            await ahead.begun(order("a"))
        assert ahead.lost() == Usage()

    played(scenario)


def test_the_side_that_leads_is_made_and_the_other_is_not() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, scheduler: Scheduler) -> None:
        async with scheduler.questions.slot():
            ahead.favour(merged=True)
            await turns()
            assert hands.asked == []
            ahead.fork(merged=[order("m1"), order("m2"), order("m3")], rejected=[order("r")])
            await turns()
            assert hands.asked == []
            ahead.favour(merged=True)
            await turns()
            assert hands.asked == ["m1", "m2"]
            ahead.favour(merged=False)
            await hands.finish("m1", "m2")
            assert hands.asked == ["m1", "m2", "r"]
            ahead.expect([order("r")], sure=True)
            ahead.favour(merged=True)
            await turns()
            assert hands.asked == ["m1", "m2", "r"]

    played(scenario)


def test_closing_breaks_off_what_nobody_will_need() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, scheduler: Scheduler) -> None:
        ahead.expect([order("a")], sure=True)
        await turns()
        await asyncio.wait_for(ahead.close(patient=False), 5)
        assert scheduler.attempts.taken == 0

    played(scenario)


def test_an_orderly_end_lets_finish_what_is_paid_for_and_begins_nothing() -> None:
    async def scenario(ahead: WorkAhead, hands: Hands, scheduler: Scheduler) -> None:
        ahead.expect([order("a"), order("b"), order("c")], sure=True)
        await turns()
        closing = asyncio.create_task(ahead.close(patient=True))
        await turns()
        assert not closing.done()
        await hands.finish("a", "b", "c")
        assert closing.done()
        assert hands.asked == ["a", "b"]
        assert ahead.lost() == Usage(calls=2, prompt_tokens=20)

    played(scenario)


def test_nothing_ahead_makes_nothing() -> None:
    nothing = NothingAhead()
    nothing.fork(merged=[order("a")], rejected=[order("b")])
    nothing.favour(merged=True)
    nothing.expect([order("a")], sure=True)
    asyncio.run(nothing.begun(order("a")))
    assert (nothing.reach, nothing.lost()) == ("none", Usage())
