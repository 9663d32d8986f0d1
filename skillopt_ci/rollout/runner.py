"""Roll out tasks concurrently, with results in task order or as they arrive."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from skillopt_ci.aio import Slots, map_ordered, stream
from skillopt_ci.progress import silent
from skillopt_ci.rollout.attempt import AttemptRunner
from skillopt_ci.rollout.types import AttemptRequest, Executor, Rollout


@dataclass(frozen=True, slots=True)
class Runner:
    """Makes attempts, here unless there is an ``executor``.

    ``begun`` waits if the same attempt is already being made elsewhere.
    """

    attempting: AttemptRunner
    places: Slots
    executor: Executor | None = None
    begun: Callable[[AttemptRequest], Awaitable[None]] | None = None

    @property
    def caveat(self) -> str:
        """What the attempts' computers do not guarantee; empty without computers."""
        pool = self.attempting.pool
        return "" if pool is None else pool.computers.caveat

    async def carry_out(
        self, requests: Iterable[AttemptRequest], done: Callable[[Rollout], None] = silent
    ) -> tuple[Rollout, ...]:
        return tuple(
            await map_ordered(
                lambda one: self._carry_out(one, done), requests, limit=self.places.limit
            )
        )

    def stream(self, requests: Iterable[AttemptRequest]) -> AsyncGenerator[Rollout, None]:
        return stream(self._carry_out, requests, limit=self.places.limit)

    async def _carry_out(
        self, request: AttemptRequest, done: Callable[[Rollout], None] = silent
    ) -> Rollout:
        if self.begun is not None:
            await self.begun(request)
        async with self.places:
            if self.executor is None:
                rollout = await self.attempting(request)
            else:
                rollout = await self.executor(request, self.attempting)
        done(rollout)
        return rollout
