"""The scheduler: places for all work of a session, where only so much may be under way at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Places:
    """Lets ``most`` pieces of work be under way; the others wait, whoever came first goes first.

    It belongs to one event loop.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._slots = asyncio.Semaphore(most)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and keep it for the body."""
        async with self._slots:
            yield


class Scheduler:
    """The places of a session, which all of its work shares, whatever stage it belongs to.

    ``attempts`` are made at tasks, ``questions`` are put to the optimizer.
    """

    def __init__(self, attempts: int, questions: int) -> None:
        self.attempts = Places(attempts)
        self.questions = Places(questions)
