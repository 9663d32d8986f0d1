import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

import pytest
import virtual_time
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import rounds

from skillopt_ci import aio
from skillopt_ci.errors import BudgetExhausted

ROUNDS = st.lists(st.integers(0, 5), max_size=30)
LIMITS = st.integers(1, 8)


@given(ROUNDS, LIMITS)
def test_map_ordered_returns_results_in_item_order(turns, limit):
    async def work(item: tuple[int, int]) -> int:
        await rounds(item[1])
        return item[0]

    items = list(enumerate(turns))
    assert asyncio.run(aio.map_ordered(work, items, limit=limit)) == list(range(len(turns)))


def test_a_limit_far_above_the_items_starts_no_idle_workers():
    async def tasks(_: int) -> int:
        return len(asyncio.all_tasks())

    assert max(asyncio.run(aio.map_ordered(tasks, range(2), limit=10_000))) < 10


@given(ROUNDS, LIMITS)
def test_map_ordered_uses_its_limit_and_never_exceeds_it(turns, limit):
    under_way, most = 0, 0

    async def work(count: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await rounds(count + 1)
        under_way -= 1

    asyncio.run(aio.map_ordered(work, turns, limit=limit))
    assert most == min(limit, len(turns))


def test_map_ordered_draws_items_as_workers_come_free_and_cancels_the_rest_at_a_failure():
    drawn, stopped = list[int](), list[int]()

    def items() -> Iterator[int]:
        for number in range(10):
            drawn.append(number)
            yield number

    async def work(number: int) -> None:
        try:
            await (asyncio.Event().wait() if number in (1, 2) else asyncio.sleep(0))
        except asyncio.CancelledError:
            stopped.append(number)
            raise
        if number == 3:
            raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        asyncio.run(aio.map_ordered(work, items(), limit=3))
    assert (drawn, sorted(stopped)) == ([0, 1, 2, 3], [1, 2])


def test_map_ordered_finishes_work_under_way_when_the_budget_runs_out():
    finished: list[int] = []

    async def work(number: int) -> None:
        await rounds(1)
        if number == 0:
            raise BudgetExhausted("spent")
        await rounds(3)
        finished.append(number)

    with pytest.raises(BudgetExhausted):
        asyncio.run(aio.map_ordered(work, range(9), limit=3))
    assert finished == [1, 2]


def test_map_ordered_passes_on_cancellation():
    stopped: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(number)

    async def cancel_amid() -> None:
        whole = asyncio.create_task(aio.map_ordered(work, range(4), limit=4))
        await rounds(3)
        whole.cancel()
        await whole

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel_amid())
    assert sorted(stopped) == [0, 1, 2, 3]


def test_siblings_raise_the_innermost_failure_with_its_cause():
    async def nested() -> None:
        async with aio.siblings() as outer:
            async with aio.siblings() as inner:
                inner.create_task(fail())
            outer.create_task(rounds(1))

    async def fail() -> None:
        raise ZeroDivisionError from KeyError()

    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(nested())
    assert isinstance(caught.value.__cause__, KeyError)


def test_begun_does_each_item_once():
    started: list[int] = []

    async def work(number: int) -> int:
        started.append(number)
        await rounds(3 - number)
        return number * 2

    async def main() -> list[int]:
        async with aio.Begun(work) as ahead:
            for number in (2, 1):
                ahead.begin(number)
            return [await ahead.result(number) for number in (1, 2, 1)]

    assert asyncio.run(main()) == [2, 4, 2]
    assert started == [2, 1]


@pytest.mark.parametrize(("failure", "end"), [(ValueError, "cancelled"), (BudgetExhausted, "done")])
def test_begun_cancels_unneeded_work_unless_it_is_paid_for(failure, end):
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
        async with aio.Begun(work) as ahead:
            ahead.begin(1)
            await rounds(1)
            await ahead.result(0)

    with pytest.raises(failure, match="stop"):
        asyncio.run(main())
    assert ends == [end]


def worked(slots: aio.Slots, work: Sequence[int]) -> tuple[list[int], int]:
    """The order in which work of so many turns began, and the most that was under way at once."""
    began, under_way, most = list[int](), 0, 0

    async def one(number: int, turns: int) -> None:
        nonlocal under_way, most
        async with slots:
            began.append(number)
            under_way += 1
            most = max(most, under_way)
            await rounds(turns)
            under_way -= 1

    async def main() -> None:
        await asyncio.gather(*(one(number, turns) for number, turns in enumerate(work)))

    asyncio.run(main())
    return began, most


@given(st.lists(st.integers(1, 5), max_size=30), st.integers(1, 8))
def test_slots_serve_first_come_first_are_all_used_and_never_exceeded(work, most):
    began, under_way = worked(aio.Slots(most), work)
    assert began == list(range(len(work)))
    assert under_way == min(most, len(work))


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "called in the same moment"])
def test_slots_survive_a_cancelled_waiter(late):
    async def main() -> list[str]:
        slots, began = aio.Slots(1), list[str]()

        async def one(name: str) -> None:
            async with slots:
                began.append(name)

        async with slots:
            first, second = (asyncio.create_task(one(name)) for name in ("first", "second"))
            await rounds(1)
            if not late:
                first.cancel()
        if late:
            first.cancel()  # it was called, but has not heard of it yet
        await asyncio.gather(first, second, return_exceptions=True)
        async with asyncio.timeout(5), slots:
            return began

    assert asyncio.run(main()) == ["second"]


def took(work: Callable[[], Awaitable[None]], limit: float | None) -> float:
    """The seconds after which ``work`` is done, or its time is up."""

    async def timed() -> float:
        with suppress(aio.TimeUp):
            async with aio.working_time(limit):
                await work()
        return asyncio.get_running_loop().time()

    return pytest.approx(virtual_time.run(timed()))


async def off(seconds: float) -> None:
    with aio.off_the_clock():
        await asyncio.sleep(seconds)


async def in_turn(*steps: Awaitable[object]) -> None:
    for step in steps:
        await step


async def give_back(seconds: float) -> None:
    aio.refund(seconds)


@pytest.mark.parametrize(
    ("work", "limit", "seconds"),
    [
        (lambda: asyncio.sleep(100), 3, 3),
        (lambda: in_turn(asyncio.sleep(1), off(50), asyncio.sleep(100)), 3, 53),
        (lambda: in_turn(asyncio.gather(off(10), off(20)), asyncio.sleep(100)), 3, 23),
        (lambda: in_turn(asyncio.sleep(2), give_back(2), asyncio.sleep(100)), 3, 5),
        (lambda: in_turn(off(10_000), give_back(1), asyncio.sleep(10_000)), None, 20_000),
    ],
)
def test_working_time_ends_work_and_counts_only_that(work, limit, seconds):
    with aio.off_the_clock():
        aio.refund(5)  # without a clock, it is forgotten
    assert took(work, limit) == seconds


def test_working_time_lets_other_timeouts_pass():
    async def work() -> None:
        async with aio.working_time(3):
            async with asyncio.timeout(1):
                await asyncio.sleep(2)

    with pytest.raises(TimeoutError):
        virtual_time.run(work())


async def _disturb(work_fails: bool, cancellations: int) -> list[str]:
    gate, told = asyncio.Event(), list[str]()

    async def work() -> str:
        await gate.wait()
        told.append("done")
        if work_fails:
            raise LookupError
        return "result"

    async def wait() -> None:
        try:
            told.append(await aio.shielded(work()))
        except (asyncio.CancelledError, LookupError) as error:
            told.append(type(error).__name__)

    task = asyncio.create_task(wait())
    for _ in range(cancellations):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    gate.set()
    await task
    return told


@pytest.mark.parametrize(
    ("fails", "cancellations", "told"),
    [
        (False, 0, "result"),
        (True, 0, "LookupError"),
        (False, 1, "CancelledError"),
        (False, 3, "CancelledError"),
        (True, 2, "CancelledError"),
    ],
)
def test_shielded_finishes_work_first(fails, cancellations, told):
    assert asyncio.run(_disturb(fails, cancellations)) == ["done", told]


def test_shielded_raises_the_cancellation_of_its_work():
    async def cancel() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(task.cancel)
        await aio.shielded(task)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
