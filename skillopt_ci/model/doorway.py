"""Doorway: requests that are made at once leave one after the other."""

import asyncio
from dataclasses import dataclass

from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest

#: Turns of the event loop in which a request that is being made gets to its socket.
TURNS = 2


class Doorway:
    """Lets callers pass one at a time, each with some ``turns`` of the event loop to go on alone.

    Without it the loop takes requests that are made at once through each stage side by side: the
    first leaves when the last is ready. The server idles meanwhile, and their answers come all at
    once as well, so that the next requests are late again. It belongs to one event loop.
    """

    def __init__(self, turns: int = TURNS) -> None:
        self._turns = turns
        self._lock = asyncio.Lock()

    async def passed(self) -> None:
        """Return when it is the caller's turn."""
        await self._lock.acquire()
        self._leave(self._turns)

    def _leave(self, turns: int) -> None:
        # Counted in turns and not until the request is sent: a slow connection holds up nobody.
        if turns:
            asyncio.get_running_loop().call_soon(self._leave, turns - 1)
        else:
            self._lock.release()


@dataclass(frozen=True, slots=True)
class OrderlyClient:
    """Puts each request when it has passed the ``doorway``, which other clients may share."""

    inner: ChatClient
    doorway: Doorway

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``."""
        await self.doorway.passed()
        return await self.inner.complete(request)
