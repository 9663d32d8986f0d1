"""Places: who gets one, and when one is spare."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.aio import Places, Scheduler


async def rounds(count: int) -> None:
    """Let the event loop turn ``count`` times."""
    for _ in range(count):
        await asyncio.sleep(0)


def worked(places: Places, work: Sequence[int]) -> tuple[list[int], int]:
    """The order in which work of so many turns began, and the most that was under way at once."""
    began, under_way, most = list[int](), 0, 0

    async def one(number: int, turns: int) -> None:
        nonlocal under_way, most
        async with places.place():
            began.append(number)
            under_way += 1
            most = max(most, under_way)
            await rounds(turns)
            under_way -= 1

    async def main() -> None:
        await asyncio.gather(*(one(number, turns) for number, turns in enumerate(work)))

    asyncio.run(main())
    return began, most


@given(
    st.lists(st.integers(1, 5), max_size=30),
    st.integers(1, 8),
)
def test_places_are_used_but_never_exceeded(work: list[int], most: int) -> None:
    began, under_way = worked(Places(most), work)
    assert sorted(began) == list(range(len(work)))
    assert under_way == min(most, len(work))


def test_places_tell_how_many_are_taken_and_whether_one_is_free() -> None:
    async def main() -> list[tuple[int, bool]]:
        places = Places(2)
        seen = [(places.taken, places.free)]
        async with places.place():
            seen.append((places.taken, places.free))
            async with places.place():
                seen.append((places.taken, places.free))
        return [*seen, (places.taken, places.free)]

    assert asyncio.run(main()) == [(0, True), (1, True), (2, False), (0, True)]


def test_whoever_came_first_goes_first() -> None:
    began, _ = worked(Places(2), [3, 1, 1, 5, 1])
    assert began == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("late", [False, True], ids=["waiting", "called in the same moment"])
def test_who_gives_up_loses_nobody_a_place(late: bool) -> None:
    async def main() -> list[str]:
        places, began = Places(1), list[str]()

        async def one(name: str) -> None:
            async with places.place():
                began.append(name)

        async with places.place():
            first, second = (asyncio.create_task(one(name)) for name in ("first", "second"))
            await rounds(1)
            if not late:
                first.cancel()
        if late:
            first.cancel()  # it was called, but has not heard of it yet
        await asyncio.gather(first, second, return_exceptions=True)
        async with asyncio.timeout(5), places.place():
            return began

    assert asyncio.run(main()) == ["second"]


async def keep(
    context: AbstractAsyncContextManager[None], began: list[str], name: str, end: asyncio.Event
) -> None:
    async with context:
        began.append(name)
        await end.wait()


def test_no_place_is_spare_while_nothing_else_is_under_way() -> None:
    """The next stage is to find all places free."""

    async def scenario() -> None:
        scheduler, began, end = Scheduler(2, 1, moment=0), list[str](), asyncio.Event()
        early = asyncio.create_task(keep(scheduler.spare(), began, "early", end))
        await rounds(5)
        assert not began
        async with scheduler.questions.place():
            await rounds(5)
            assert began == ["early"]
        end.set()
        await early

    asyncio.run(scenario())


def test_a_place_that_somebody_waits_for_is_not_spare() -> None:
    async def scenario() -> None:
        scheduler, began = Scheduler(2, 1, moment=0), list[str]()
        end = {name: asyncio.Event() for name in ("one", "two", "three", "early")}
        work = [
            asyncio.create_task(keep(scheduler.attempts.place(), began, name, end[name]))
            for name in ("one", "two", "three")
        ]
        work.append(asyncio.create_task(keep(scheduler.spare(), began, "early", end["early"])))
        await rounds(5)
        end["one"].set()
        await rounds(5)
        assert began == ["one", "two", "three"]
        end["two"].set()
        await rounds(5)
        assert began[3:] == ["early"]
        for one in end.values():
            one.set()
        await asyncio.gather(*work)

    asyncio.run(scenario())


def test_work_in_a_spare_place_makes_no_place_spare() -> None:
    async def scenario() -> None:
        scheduler, began, end = Scheduler(3, 1, moment=0), list[str](), asyncio.Event()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(scheduler.attempts.place())
            first = asyncio.create_task(keep(scheduler.spare(), began, "first", end))
            await rounds(5)
        second = asyncio.create_task(keep(scheduler.spare(), began, "second", end))
        await rounds(5)
        assert began == ["first"]
        second.cancel()
        end.set()
        await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize("asked", [False, True], ids=["attempts alone", "and a question"])
def test_a_place_that_attempts_left_just_now_is_not_spare(asked: bool) -> None:
    """Others may be asked for in a moment; while a question is under way nobody asks for any."""

    async def scenario() -> list[str]:
        scheduler, began, end = Scheduler(2, 1, moment=3600), list[str](), asyncio.Event()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(scheduler.attempts.place())
            if asked:
                await stack.enter_async_context(scheduler.questions.place())
            early = asyncio.create_task(keep(scheduler.spare(), began, "early", end))
            await rounds(5)
        early.cancel()
        await asyncio.gather(early, return_exceptions=True)
        return began

    assert asyncio.run(scenario()) == (["early"] if asked else [])


def test_a_place_that_somebody_took_in_that_moment_is_waited_for() -> None:
    async def scenario() -> None:
        scheduler, began, end = Scheduler(1, 1, moment=0), list[str](), asyncio.Event()
        async with scheduler.questions.place():
            taken = asyncio.create_task(keep(scheduler.attempts.place(), began, "taken", end))
            await rounds(1)
            early = asyncio.create_task(keep(scheduler.spare(), began, "early", end))
            await rounds(5)
            assert began == ["taken"]
            end.set()
            await asyncio.gather(taken, early)
        assert began == ["taken", "early"]

    asyncio.run(scenario())
