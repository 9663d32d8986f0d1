"""Time that is worked: a limit whose clock stands still while somebody else is waited for."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar


class TimeUp(Exception):
    """The working time is over."""


class _Clock:
    """One limit under way; ``waiting`` counts those who have it stand still."""

    def __init__(self, timeout: asyncio.Timeout) -> None:
        self._timeout = timeout
        self._waiting = 0
        self._left = 0.0

    def stop(self) -> None:
        self._waiting += 1
        when = self._timeout.when()
        if self._waiting == 1 and when is not None and not self._timeout.expired():
            self._left = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def go_on(self) -> None:
        self._waiting -= 1
        if not self._waiting and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    def refund(self, seconds: float) -> None:
        when = self._timeout.when()
        if when is None:
            self._left += seconds
        elif not self._timeout.expired():
            self._timeout.reschedule(when + seconds)


_CLOCK: ContextVar[_Clock | None] = ContextVar("working_time", default=None)


@asynccontextmanager
async def working_time(seconds: float | None) -> AsyncIterator[None]:
    """Cancel the body after ``seconds`` of working time (None: never) and raise :class:`TimeUp`.

    A limit around another one is not stopped by what waits inside.
    """
    timeout = asyncio.timeout(seconds)
    token = _CLOCK.set(None if seconds is None else _Clock(timeout))
    try:
        async with timeout:
            yield
    except TimeoutError:
        if timeout.expired():
            raise TimeUp from None
        raise
    finally:
        _CLOCK.reset(token)


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Let the time in which the body waits count for nothing."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    clock.stop()
    try:
        yield
    finally:
        clock.go_on()


def refund(seconds: float) -> None:
    """Give time back that turned out to be somebody else's fault."""
    clock = _CLOCK.get()
    if clock is not None:
        clock.refund(seconds)
