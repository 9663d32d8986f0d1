"""Roll out tasks: every attempt at each, many at once, results in task order or as they come."""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from skillopt_ci.aio import Slots, map_ordered, stream
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.rollout.attempt import AttemptRunner
from skillopt_ci.rollout.types import AttemptRequest, Executor, Rollout, run_locally
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Runner:
    """Has attempts made: ``attempting`` makes one, ``executor`` decides where.

    Each keeps one of ``places`` meanwhile, those of several calls together. Every task is
    attempted ``attempts`` times unless a call says otherwise. ``begun`` waits while the very same
    attempt is made by somebody else: what comes of it is then found where attempts are kept.
    """

    attempting: AttemptRunner
    places: Slots
    executor: Executor = run_locally
    begun: Callable[[AttemptRequest], Awaitable[None]] | None = None

    @property
    def attempts(self) -> int:
        return self.attempting.settings.attempts

    @property
    def caveat(self) -> str:
        """What the attempts' computers do not guarantee; nothing without computers."""
        pool = self.attempting.pool
        return "" if pool is None else pool.computers.caveat

    async def roll_out(
        self,
        tasks: Sequence[Task],
        skill: str,
        *,
        stage: str,
        attempts: Sequence[int] | None = None,
        done: Callable[[Rollout], None] | None = None,
    ) -> tuple[Rollout, ...]:
        """Attempt every task under ``skill``; the results of each stand together, in task order.

        ``attempts`` are the numbers of the attempts to make, by default all. ``done`` is called
        with each result as it comes. Errors that belong to one task become its outcome; a wrong
        configuration or a used-up budget cancels the rest and is raised.
        """
        return await self.carry_out(self._requests(tasks, skill, stage, attempts), done)

    async def carry_out(
        self,
        requests: Iterable[AttemptRequest],
        done: Callable[[Rollout], None] | None = None,
    ) -> tuple[Rollout, ...]:
        """The same for ``requests``; the results are in their order."""

        async def one(request: AttemptRequest) -> Rollout:
            rollout = await self._carry_out(request)
            if done is not None:
                done(rollout)
            return rollout

        return tuple(await map_ordered(one, requests, limit=self.places.limit))

    async def stream(
        self,
        tasks: Iterable[Task],
        skill: str,
        *,
        stage: str,
        attempts: Sequence[int] | None = None,
        ordered: bool = False,
    ) -> AsyncGenerator[Rollout, None]:
        """Yield results as they come or in task order; close it if not all are taken."""
        requests = self._requests(tasks, skill, stage, attempts)
        results = stream(self._carry_out, requests, limit=self.places.limit, ordered=ordered)
        async with aclosing(results):
            async for rollout in results:
                yield rollout

    async def _carry_out(self, request: AttemptRequest) -> Rollout:
        if self.begun is not None:
            await self.begun(request)
        async with self.places.slot():
            return await self.executor(request, self.attempting)

    def _requests(
        self, tasks: Iterable[Task], skill: str, stage: str, attempts: Sequence[int] | None
    ) -> Iterator[AttemptRequest]:
        numbers = range(self.attempts) if attempts is None else attempts
        return (AttemptRequest(task, skill, stage, number) for task in tasks for number in numbers)


def refuse_too_many_errors(rollouts: Sequence[Rollout], limit: float, what: str) -> None:
    """Raise :class:`TooManyErrors` if a share above ``limit``, or all, is unmeasured."""
    reasons = Counter(one.reason for one in rollouts if not one.status.measured)
    refuse_errors(reasons, len(rollouts), limit, what)


def refuse_errors(reasons: Counter[str], total: int, limit: float, what: str) -> None:
    """The same for ``total`` attempts of which those counted in ``reasons`` are unmeasured."""
    errors = reasons.total()
    if not errors or (errors <= limit * total and errors < total):
        return
    commonest = reasons.most_common(1)[0][0]
    raise TooManyErrors(
        f"{errors} of {total} {what} tasks could not be measured "
        f"(evaluation.max_error_rate is {limit:g}). Most often: {commonest}",
        hint="Nothing was committed, and every answer that was paid for is kept: "
        "fix the cause, then rerun.",
    )
