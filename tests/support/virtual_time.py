"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done.

What waits for seconds takes no time, and happens in the order that the seconds say. Where real
processes have to get somewhere first, ``pass_time`` and ``out_of_time`` end what time is left.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never sleeps for a timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        wait = self._selector.select

        def select(timeout: float | None = None) -> Any:
            if timeout is None:
                return wait(None)
            ready = wait(0)
            if not ready:
                self._now += timeout
            return ready

        self._selector.select = select  # type: ignore[method-assign]

    def time(self) -> float:
        return self._now


async def rounds(count: int = 6) -> None:
    """Let the event loop turn ``count`` times: by default until everything has gone on that can."""
    for _ in range(count):
        await asyncio.sleep(0)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run ``work`` on such a loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def pass_time(seconds: float) -> None:
    """Let the clock of this event loop go on by ``seconds``, so that what waits for it is due."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]


async def out_of_time(
    work: Coroutine[Any, Any, Result], begun: Callable[[], object], seconds: float = 60.0
) -> Result:
    """Do ``work``, which has a limit of ``seconds``, and let them be over once it has ``begun``."""
    loop, running = asyncio.get_running_loop(), asyncio.ensure_future(work)

    def limited() -> bool:  # a program may have begun before its limit has
        left = [timer.when() - loop.time() for timer in loop._scheduled]  # type: ignore[attr-defined]
        return any(seconds / 2 < one <= seconds for one in left)

    while not running.done():
        await asyncio.sleep(0.01)
        if begun() and limited():
            pass_time(seconds)
            break
    return await running


async def out_of_time_whenever(
    work: Coroutine[Any, Any, Result], begun: Path, seconds: float = 60.0
) -> Result:
    """Do ``work`` and let its ``seconds`` be over whenever the file ``begun`` is there."""
    running = asyncio.ensure_future(work)
    while not running.done():
        await asyncio.sleep(0.01)
        if begun.exists():
            begun.unlink()
            pass_time(seconds)
    return await running
