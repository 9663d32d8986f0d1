"""How many calls a role has under way: as many as its server bears.

Additive increase, multiplicative decrease, as TCP controls congestion (Chiu and Jain, 1989): a
refusal for overload halves the number, a window of answers raises it by one.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_FALL = 0.5


class Throttle:
    """Lets at most ``ceiling`` calls be under way, fewer while the server has too much to do.

    Whoever waits is woken by the end of a call or of a pause, in the order of arrival. It belongs
    to one event loop.
    """

    def __init__(self, ceiling: int) -> None:
        self._ceiling = float(ceiling)
        self._window = float(ceiling)
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._resume_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._epoch = 0

    @property
    def limit(self) -> int:
        """Calls that may be under way now."""
        return int(self._window)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a place and keep it; its value is to be handed to :meth:`overloaded`."""
        await self._enter()
        try:
            yield self._epoch
        finally:
            self._under_way -= 1
            self._wake()

    def answered(self) -> None:
        """Tell of a call that was answered: the limit rises by one with each window of them."""
        self._window = min(self._ceiling, self._window + 1 / self._window)

    def overloaded(self, since: int, retry_after: float | None) -> None:
        """Tell of a refusal for overload of the call that began with ``since``.

        The limit is halved once for all calls that were under way together. Nobody begins within
        the next ``retry_after`` seconds, where the server asks for that.
        """
        if since == self._epoch:
            self._window = max(1.0, self._window * _FALL)
            self._epoch += 1
        if retry_after is not None:
            now = asyncio.get_running_loop().time()
            self._resume_at = max(self._resume_at, now + retry_after)

    async def _enter(self) -> None:
        if not self._waiting and self._is_free():
            self._under_way += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._under_way -= 1
                self._wake()
            elif place in self._waiting:
                self._waiting.remove(place)
            raise

    def _is_free(self) -> bool:
        paused = asyncio.get_running_loop().time() < self._resume_at
        return not paused and self._under_way < self.limit

    def _wake(self) -> None:
        """Let in as many as there is room for, or see to it that somebody does after the pause."""
        while self._waiting and self._is_free():
            place = self._waiting.popleft()
            if not place.done():
                self._under_way += 1
                place.set_result(None)
        if self._waiting and self._under_way < self.limit and self._alarm is None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(self._resume_at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake()
