"""The scheduler: places for all work of a session, where only so much may be under way at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Places:
    """Lets ``most`` pieces of work be under way; the others wait, whoever came first goes first.

    It belongs to one event loop. ``changed`` is set whenever a place is taken or left.
    """

    def __init__(self, most: int, changed: asyncio.Event | None = None) -> None:
        self.most = most
        self.taken = 0
        self._slots = asyncio.Semaphore(most)
        self._changed = changed or asyncio.Event()

    @property
    def free(self) -> bool:
        """Whether there is a place that nobody waits for."""
        return not self._slots.locked()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and keep it for the body."""
        async with self.spare():
            self._count(1)
            try:
                yield
            finally:
                self._count(-1)

    @asynccontextmanager
    async def spare(self) -> AsyncIterator[None]:
        """The same for work that is not counted in ``taken``."""
        try:
            async with self._slots:
                yield
        finally:
            self._changed.set()

    def _count(self, by: int) -> None:
        self.taken += by
        self._changed.set()


#: Seconds after which a place that attempts have left counts as empty: when the last of a wave of
#: answers are in, the next wave is asked, and is not to find spare work in its places.
MOMENT = 0.03


class Scheduler:
    """The places of a session, which all of its work shares, whatever stage it belongs to.

    ``attempts`` are made at tasks, ``questions`` are put to the optimizer. ``moment`` is how long
    a place is kept free, in seconds.
    """

    def __init__(self, attempts: int, questions: int, *, moment: float = MOMENT) -> None:
        self._moment = moment
        self._changed = asyncio.Event()
        self.attempts = Places(attempts, self._changed)
        self.questions = Places(questions, self._changed)

    @asynccontextmanager
    async def spare(self) -> AsyncIterator[None]:
        """Keep a place for an attempt, one that would stay empty while other work is under way.

        Between two stages nothing is begun: the next one is to find all places free.
        """
        await self._seen_empty()
        # who waits for a question asks for no places, but attempts may soon be followed by others
        while not self.questions.taken:
            await asyncio.sleep(self._moment)
            if self._has_spare:
                break
            await self._seen_empty()
        async with self.attempts.spare():
            yield

    async def _seen_empty(self) -> None:
        while not self._has_spare:
            self._changed.clear()
            await self._changed.wait()

    @property
    def _has_spare(self) -> bool:
        busy = self.attempts.taken or self.questions.taken
        return self.attempts.free and bool(busy)
