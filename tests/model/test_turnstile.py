import asyncio
import math

import pytest

from skillopt_ci.model.turnstile import Turnstile
from skillopt_ci.working_time import TimeUp, working_time

NAMES = list("abcd")


def test_each_gets_its_next_request_out_before_the_next_one_passes() -> None:
    async def main() -> list[str]:
        turnstile, done, answered = Turnstile(math.inf), list[str](), asyncio.Event()

        async def one(name: str) -> None:
            await answered.wait()
            await turnstile.passed()
            done.append(f"{name} asks")
            for _ in range(5):  # a request waits for locks and writes
                await asyncio.sleep(0)
            done.append(f"{name} sent")

        async with asyncio.TaskGroup() as group:
            for name in NAMES:
                group.create_task(one(name))
            answered.set()
        return done

    assert asyncio.run(main()) == [f"{name} {did}" for name in NAMES for did in ("asks", "sent")]


def test_a_busy_loop_lets_one_pass_each_turn() -> None:
    async def main() -> int:
        turnstile, loop, turns = Turnstile(), asyncio.get_running_loop(), 0

        async def busy() -> None:
            nonlocal turns
            while True:
                turns += 1
                until = loop.time() + 0.004
                while loop.time() < until:
                    pass
                await asyncio.sleep(0)

        work = asyncio.create_task(busy())
        await asyncio.gather(*(turnstile.passed() for _ in range(8)))
        work.cancel()
        return turns

    # each waits to be called and then for one turn, not for all eight
    assert asyncio.run(main()) <= 3 * 8


def test_who_gives_up_keeps_nobody_waiting() -> None:
    async def main() -> list[str]:
        turnstile, passed = Turnstile(math.inf), list[str]()

        async def one(name: str) -> None:
            await turnstile.passed()
            passed.append(name)

        tasks = [asyncio.create_task(one(name)) for name in NAMES]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return passed

    assert asyncio.run(main()) == ["b", "d"]


def test_waiting_for_a_turn_takes_no_working_time() -> None:
    async def main() -> None:
        turnstile, loop = Turnstile(), asyncio.get_running_loop()
        async with working_time(0.01):
            waiting = asyncio.create_task(turnstile.passed())
            await asyncio.sleep(0)
            until = loop.time() + 0.05
            while loop.time() < until:  # the loop is busy with others
                pass
            await waiting

    asyncio.run(main())


def test_only_the_turn_is_off_the_clock() -> None:
    async def main() -> None:
        turnstile = Turnstile()
        async with working_time(0.01):
            await turnstile.passed()
            await asyncio.Event().wait()

    with pytest.raises(TimeUp):
        asyncio.run(main())
