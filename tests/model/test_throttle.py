"""How many calls are under way, in a world whose clock runs only while everybody waits."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
import virtual_time
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.aio import siblings
from skillopt_ci.model.retry import RetryingClient, Throttle, TransientFailure
from skillopt_ci.model.types import ChatRequest


def simulated(work: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, float]:
    """What ``work`` returns, and the seconds that it took by the simulated clock."""

    async def timed() -> tuple[Any, float]:
        return await work(), asyncio.get_running_loop().time()

    return virtual_time.run(timed())


@dataclass
class Limited:
    """Answers in a second; refuses what would be more than ``capacity`` calls at once."""

    capacity: int
    answer: Any
    retry_after: float | None = None
    now: int = 0
    refused: int = 0
    answered: int = 0
    starts: list[float] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> Any:
        self.starts.append(asyncio.get_running_loop().time())
        self.now += 1
        try:
            if self.now > self.capacity:
                self.refused += 1
                raise TransientFailure("429", retry_after=self.retry_after, overloaded=True)
            await asyncio.sleep(1)
            self.answered += 1
            return self.answer
        finally:
            self.now -= 1


class Fixed(Throttle):
    """The same without learning."""

    def overloaded(self, since: int, retry_after: float | None) -> None:
        pass


def worked_off(
    server: Limited, throttle: type[Throttle], count: int, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> float:
    monkeypatch.setattr("skillopt_ci.model.retry.Throttle", throttle)

    async def work() -> None:
        client = RetryingClient(server, retries=100, max_concurrency=32, draw=lambda: 0.5)
        async with siblings() as group:
            for number in range(count):
                group.create_task(client.complete(ask(str(number))))

    return simulated(work)[1]


def test_less_is_refused_and_more_is_done_than_with_a_fixed_number(monkeypatch, ask, reply):
    learning, fixed = (Limited(4, reply()) for _ in range(2))
    fast = worked_off(learning, Throttle, 200, monkeypatch, ask)
    slow = worked_off(fixed, Fixed, 200, monkeypatch, ask)
    assert (learning.answered, fixed.answered) == (200, 200)
    assert learning.refused < fixed.refused / 3
    assert fast < slow


def test_the_number_grows_back_when_the_server_bears_it(ask, reply):
    throttle = Throttle(16)
    throttle.overloaded(0, None)
    assert throttle.limit == 8
    for _ in range(8 * 9):
        throttle.answered()
    assert throttle.limit > 12
    for _ in range(1000):
        throttle.answered()
    assert throttle.limit == 16


def test_calls_that_are_refused_together_halve_the_number_once():
    throttle = Throttle(16)
    for _ in range(16):
        throttle.overloaded(0, None)
    assert throttle.limit == 8
    throttle.overloaded(1, None)
    assert throttle.limit == 4


def test_one_call_is_always_let_through():
    throttle = Throttle(2)
    for epoch in range(5):
        throttle.overloaded(epoch, None)
    assert throttle.limit == 1


def test_nobody_begins_before_the_time_that_the_server_asks_for(ask, reply):
    server = Limited(2, reply(), retry_after=30.0)

    async def work() -> None:
        client = RetryingClient(server, retries=9, max_concurrency=3, draw=lambda: 0.0)
        async with siblings() as group:
            for number in range(9):
                group.create_task(client.complete(ask(str(number))))

    simulated(work)
    first, later = server.starts[:3], server.starts[3:]
    assert first == [0.0] * 3
    assert min(later) >= 30
    assert server.answered == 9


def test_a_wait_that_is_cancelled_takes_no_place_away():
    async def work() -> list[str]:
        throttle, done = Throttle(1), list[str]()

        async def visit(name: str) -> None:
            async with throttle.slot():
                await asyncio.sleep(1)
                done.append(name)

        first, second, third = (asyncio.create_task(visit(name)) for name in "abc")
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.wait([first, second, third])
        return done

    assert simulated(work)[0] == ["a", "c"]


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from(["ok", "busy", "cancel"]), st.integers(0, 3)), max_size=25),
)
def test_never_more_than_the_ceiling_and_nobody_is_forgotten(ceiling, visits):
    async def work() -> tuple[int, int]:
        throttle, now, most, ended = Throttle(ceiling), 0, 0, 0

        async def visit(kind: str, seconds: int) -> None:
            nonlocal now, most, ended
            try:
                async with throttle.slot() as since:
                    now += 1
                    most = max(most, now)
                    try:
                        await asyncio.sleep(seconds)
                    finally:
                        now -= 1
                    if kind == "busy":
                        throttle.overloaded(since, seconds)
                    else:
                        throttle.answered()
            finally:
                ended += 1

        tasks = [asyncio.create_task(visit(*one)) for one in visits]
        for (kind, seconds), task in zip(visits, tasks, strict=True):
            if kind == "cancel":
                await asyncio.sleep(seconds / 2)
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return most, ended

    (most, ended), _ = simulated(work)
    assert most <= ceiling
    assert ended == len([*visits])
