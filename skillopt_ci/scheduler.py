"""The scheduler: which of all that waits goes next, where only so much may be under way at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count


class Places:
    """Lets ``most`` pieces of work be under way; the others wait in the order of their rank.

    Of equal rank whoever came first goes first. It belongs to one event loop.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._free = most
        self._arrivals = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def place(self, rank: int = 0) -> AsyncIterator[None]:
        """Wait for a place and keep it for the body; a lower ``rank`` goes first."""
        await self._enter(rank)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, rank: int) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._arrivals), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Scheduler:
    """The places of a session, which all of its work shares, whatever stage it belongs to.

    ``attempts`` are made at tasks, ``questions`` are put to the optimizer.
    """

    def __init__(self, attempts: int, questions: int) -> None:
        self.attempts = Places(attempts)
        self.questions = Places(questions)
