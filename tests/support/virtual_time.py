"""An event loop whose clock jumps to the next timer as soon as nothing else is to be done.

What waits for seconds takes no time, and happens in the order that the seconds say.
"""

import asyncio
from collections.abc import Coroutine
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
