"""Arrivals: results of attempts under way, each as soon as it and all before it are there."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager

from skillopt_ci.rollout.types import Rollout


class Arrivals:
    """The results of the attempts ``expected`` (task and number), in that order.

    So whoever takes them sees the same whatever the order of arrival. It belongs to one event
    loop and is taken from once.
    """

    def __init__(self, expected: Iterable[tuple[str, int]]) -> None:
        loop = asyncio.get_running_loop()
        self._results = {key: loop.create_future() for key in expected}
        self._end: asyncio.Future[None] = loop.create_future()

    def came(self, rollout: Rollout) -> None:
        """Tell of a result."""
        result = self._results[rollout.task_id, rollout.attempt]
        if not result.done():
            result.set_result(rollout)

    @contextmanager
    def complete(self) -> Iterator[None]:
        """Nothing comes after the body; a failure of it is that of the arrivals."""
        try:
            yield
        except Exception as failure:
            self._end.set_exception(failure)
            self._end.exception()  # whoever made the attempts raises it, taken or not
            raise
        self._end.set_result(None)

    async def in_order(self) -> AsyncIterator[Rollout]:
        """Yield each result when its turn has come; raises the failure that ended them."""
        for result in self._results.values():
            await asyncio.wait((result, self._end), return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                break
            yield result.result()
        await self._end
