"""Turnstile: answers that come together are worked on one after the other."""

import asyncio

from skillopt_ci.working_time import off_the_clock

#: Turns of the event loop in which a request gets from its body to the socket: it waits for
#: locks of the connection, and for each of its writes.
_TURNS = 8
LONGEST = 0.003


class Turnstile:
    """Lets callers pass one at a time, each with a start in which to put its next request.

    Without it the event loop takes a wave of answers through each stage side by side, so that no
    request leaves before all answers are dealt with: the server idles, then gets a wave again. It
    belongs to one event loop. After ``longest`` seconds the next caller passes all the same: a
    busy loop turns slowly.
    """

    def __init__(self, longest: float = LONGEST) -> None:
        self._longest = longest
        self._lock = asyncio.Lock()

    async def passed(self) -> None:
        """Return when it is the caller's turn; nobody's working time runs meanwhile."""
        with off_the_clock():
            async with self._lock:
                loop = asyncio.get_running_loop()
                until = loop.time() + self._longest
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                    if loop.time() > until:
                        break
