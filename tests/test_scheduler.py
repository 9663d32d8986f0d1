import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.scheduler import Places


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
