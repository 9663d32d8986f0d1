"""Attempts: rollouts that are told apart by their number, so that none is made twice unawares."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager

from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.rollout.types import AttemptRequest, Rollout
from skillopt_ci.tasks.task import Task


def round_of(number: int, each: int) -> range:
    """The numbers of the attempts in round ``number``, if a round has ``each`` of them."""
    return range(number * each, (number + 1) * each)


def rounds(
    tasks: Iterable[tuple[Task, int]], skill: str, stage: str, each: int
) -> tuple[AttemptRequest, ...]:
    """The attempts of ``each`` round, given by its task and number."""
    return tuple(
        AttemptRequest(task, skill, stage, attempt)
        for task, number in tasks
        for attempt in round_of(number, each)
    )


def made_under(
    skill_sha256: str, basis: str | None, records: Iterable[StepRecord]
) -> list[tuple[str, int]]:
    """The training attempts under this skill that ``records`` tell of, oldest first.

    Given a ``basis``, only those whose configuration and tasks were the same.
    """
    return [
        (task.id, task.attempt)
        for record in records
        if record.proposal.attempted_under == skill_sha256 and basis in (None, record.basis_sha256)
        for task in record.proposal.rollout.tasks
        if task.status.measured
    ]


def next_rounds(
    tasks: Iterable[Task], made: Iterable[tuple[str, int]], each: int
) -> list[tuple[Task, int]]:
    """Fresh rounds at ``tasks``: a step that repeats known answers would learn nothing new."""
    last = dict(sorted(made, key=lambda one: one[1]))
    return [(task, last.get(task.id, -1) // each + 1) for task in tasks]


class Arrivals:
    """The results of the attempts ``expected``, in that order, each as soon as its turn has come.

    It belongs to one event loop and is taken from once.
    """

    def __init__(self, expected: Iterable[AttemptRequest]) -> None:
        loop = asyncio.get_running_loop()
        self._results = {(one.task.id, one.attempt): loop.create_future() for one in expected}
        self._end: asyncio.Future[None] = loop.create_future()

    def came(self, rollout: Rollout) -> None:
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
