from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
import virtual_time

from skillopt_ci.aio import TimeUp, off_the_clock, refund, working_time


def test_work_that_takes_too_long_is_ended() -> None:
    async def work() -> float:
        with suppress(TimeUp):
            async with working_time(3):
                await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work()) == pytest.approx(3)


def test_waiting_off_the_clock_does_not_count() -> None:
    async def work() -> float:
        with suppress(TimeUp):
            async with working_time(3):
                await asyncio.sleep(1)
                with off_the_clock():
                    await asyncio.sleep(50)
                await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work()) == pytest.approx(53)


def test_the_clock_stands_still_while_anybody_waits() -> None:
    async def wait(seconds: float) -> None:
        with off_the_clock():
            await asyncio.sleep(seconds)

    async def work() -> float:
        with suppress(TimeUp):
            async with working_time(3):
                await asyncio.gather(wait(10), wait(20))
                await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work()) == pytest.approx(23)


def test_time_is_given_back() -> None:
    async def work() -> float:
        with suppress(TimeUp):
            async with working_time(3):
                await asyncio.sleep(2)
                refund(2)
                await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work()) == pytest.approx(5)


def test_without_a_limit_work_takes_as_long_as_it_takes() -> None:
    async def work() -> float:
        async with working_time(None):
            with off_the_clock():
                await asyncio.sleep(10_000)
            refund(1)
            await asyncio.sleep(10_000)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work()) == pytest.approx(20_000)


def test_another_timeout_is_not_taken_for_this_one() -> None:
    async def work() -> None:
        async with working_time(3):
            async with asyncio.timeout(1):
                await asyncio.sleep(2)

    with pytest.raises(TimeoutError):
        virtual_time.run(work())


def test_what_happens_without_a_clock_is_not_kept_for_the_next_one() -> None:
    async def work() -> float:
        with off_the_clock():
            refund(5)
            await asyncio.sleep(10)
        with suppress(TimeUp):
            async with working_time(3):
                await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(work()) == pytest.approx(13)
