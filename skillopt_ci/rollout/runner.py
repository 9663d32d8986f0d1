"""Roll out tasks concurrently, with results in task order or as they arrive."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from skillopt_ci.aio import Slots, map_ordered, stream
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.rollout.attempt import AttemptRunner
from skillopt_ci.rollout.types import AttemptRequest, Executor, Rollout, run_locally


@dataclass(frozen=True, slots=True)
class Runner:
    """Makes attempts; ``begun`` waits if the same attempt is already being made elsewhere."""

    attempting: AttemptRunner
    places: Slots
    executor: Executor = run_locally
    begun: Callable[[AttemptRequest], Awaitable[None]] | None = None

    @property
    def attempts(self) -> int:
        return self.attempting.settings.attempts

    @property
    def caveat(self) -> str:
        """What the attempts' computers do not guarantee; empty without computers."""
        pool = self.attempting.pool
        return "" if pool is None else pool.computers.caveat

    async def carry_out(
        self, requests: Iterable[AttemptRequest], done: Callable[[Rollout], None] | None = None
    ) -> tuple[Rollout, ...]:
        async def one(request: AttemptRequest) -> Rollout:
            rollout = await self._carry_out(request)
            if done is not None:
                done(rollout)
            return rollout

        return tuple(await map_ordered(one, requests, limit=self.places.limit))

    async def stream(self, requests: Iterable[AttemptRequest]) -> AsyncGenerator[Rollout, None]:
        async with aclosing(stream(self._carry_out, requests, limit=self.places.limit)) as results:
            async for rollout in results:
                yield rollout

    async def _carry_out(self, request: AttemptRequest) -> Rollout:
        if self.begun is not None:
            await self.begun(request)
        async with self.places:
            return await self.executor(request, self.attempting)


def refuse_too_many_errors(rollouts: Sequence[Rollout], limit: float, what: str) -> None:
    reasons = Counter(one.reason for one in rollouts if not one.status.measured)
    refuse_errors(reasons, len(rollouts), limit, what)


def refuse_errors(reasons: Counter[str], total: int, limit: float, what: str) -> None:
    """Raise TooManyErrors if a share above ``limit``, or everything, is unmeasured."""
    errors = reasons.total()
    if not errors or (errors <= limit * total and errors < total):
        return
    raise TooManyErrors(
        f"{errors} of {total} {what} tasks could not be measured "
        f"(evaluation.max_error_rate is {limit:g}). Most often: {reasons.most_common(1)[0][0]}",
        hint="Nothing was committed, and every paid answer is kept: fix the cause, then rerun.",
    )
