import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.aio import begun, map_ordered, siblings
from skillopt_ci.errors import BudgetExhausted

ROUNDS = st.lists(st.integers(0, 5), max_size=30)
LIMITS = st.integers(1, 8)


async def rounds(count: int) -> None:
    """Let the event loop turn ``count`` times."""
    for _ in range(count):
        await asyncio.sleep(0)


@given(ROUNDS, LIMITS)
def test_results_are_in_item_order_whatever_finishes_first(turns: list[int], limit: int) -> None:
    async def work(item: tuple[int, int]) -> int:
        await rounds(item[1])
        return item[0]

    items = list(enumerate(turns))
    assert asyncio.run(map_ordered(work, items, limit=limit)) == list(range(len(turns)))


@given(ROUNDS, LIMITS)
def test_the_limit_is_used_but_never_exceeded(turns: list[int], limit: int) -> None:
    under_way, most = 0, 0

    async def work(count: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await rounds(count + 1)
        under_way -= 1

    asyncio.run(map_ordered(work, turns, limit=limit))
    assert most == min(limit, len(turns))


def test_items_are_drawn_only_when_there_is_a_worker_for_them() -> None:
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            drawn.append(number)
            yield number

    async def work(number: int) -> None:
        if number == 3:
            raise ValueError("stop")
        await asyncio.sleep(0)

    with pytest.raises(ValueError, match="stop"):
        asyncio.run(map_ordered(work, items(), limit=2))
    assert len(drawn) < 10


def test_a_failure_comes_unwrapped_and_stops_the_others() -> None:
    stopped: list[int] = []

    async def work(number: int) -> None:
        if number == 0:
            await asyncio.sleep(0)
            raise KeyError("first")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(number)
            raise

    with pytest.raises(KeyError, match="first"):
        asyncio.run(map_ordered(work, range(3), limit=3))
    assert sorted(stopped) == [1, 2]


def test_a_used_up_budget_lets_finish_what_was_begun_and_begins_nothing_more() -> None:
    finished: list[int] = []

    async def work(number: int) -> None:
        if number == 0:
            raise BudgetExhausted("spent")
        await rounds(3)
        finished.append(number)

    with pytest.raises(BudgetExhausted):
        asyncio.run(map_ordered(work, range(9), limit=3))
    assert finished == [1, 2]


def test_cancelling_the_whole_reaches_every_part() -> None:
    async def cancel_amid() -> int:
        stopped = 0

        async def work(_: int) -> None:
            nonlocal stopped
            try:
                await asyncio.Event().wait()
            finally:
                stopped += 1

        whole = asyncio.create_task(map_ordered(work, range(4), limit=4))
        await rounds(3)
        whole.cancel()
        with pytest.raises(asyncio.CancelledError):
            await whole
        return stopped

    assert asyncio.run(cancel_amid()) == 4


def test_no_items_is_no_work() -> None:
    assert asyncio.run(map_ordered(rounds, [], limit=3)) == []


def test_nested_siblings_raise_the_innermost_failure() -> None:
    async def nested() -> None:
        async with siblings() as outer:
            async with siblings() as inner:
                inner.create_task(fail())
            outer.create_task(rounds(1))

    async def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(nested())


def test_what_was_begun_ahead_is_not_begun_again() -> None:
    started: list[int] = []

    async def work(number: int) -> int:
        started.append(number)
        await rounds(3 - number)
        return number * 2

    async def main() -> list[int]:
        async with begun(work) as ahead:
            for number in (2, 1):
                ahead.begin(number)
            return [await ahead.result(number) for number in (1, 2, 1)]

    assert asyncio.run(main()) == [2, 4, 2]
    assert started == [2, 1]


@pytest.mark.parametrize(("failure", "end"), [(ValueError, "cancelled"), (BudgetExhausted, "done")])
def test_what_nobody_waited_for_is_cancelled_but_not_what_a_budget_paid_for(
    failure: type[Exception], end: str
) -> None:
    ends: list[str] = []

    async def work(number: int) -> None:
        if number == 0:
            raise failure("stop")
        try:
            await rounds(5)
            ends.append("done")
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async def main() -> None:
        async with begun(work) as ahead:
            ahead.begin(1)
            await rounds(1)
            await ahead.result(0)

    with pytest.raises(failure, match="stop"):
        asyncio.run(main())
    assert ends == [end]
