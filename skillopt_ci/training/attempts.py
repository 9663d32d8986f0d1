"""Attempts: rollouts that are told apart by their number, so that none is made twice unawares."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from skillopt_ci.aio import map_ordered
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.rollout.runner import Runner
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Numbered:
    """A task, and which round of attempts at it under one skill this is (from 0)."""

    task: Task
    number: int = 0


async def roll_out_numbered(
    runner: Runner,
    attempts: Sequence[Numbered],
    skill: str,
    *,
    stage: str,
    done: Callable[[Rollout], None] | None = None,
) -> tuple[Rollout, ...]:
    """Make the rounds of attempts under ``skill``, all at the same time.

    The results are in their order, those of one round together.
    """
    each = runner.attempts
    numbers = sorted({one.number for one in attempts})

    async def same(number: int) -> Sequence[Rollout]:
        tasks = [one.task for one in attempts if one.number == number]
        rounds = round_of(number, each)
        return await runner.roll_out(tasks, skill, stage=stage, attempts=rounds, done=done)

    lots = await map_ordered(same, numbers, limit=max(1, len(numbers)))
    waiting = {number: iter(lot) for number, lot in zip(numbers, lots, strict=True)}
    return tuple(next(waiting[one.number]) for one in attempts for _ in range(each))


def round_of(number: int, each: int) -> range:
    """The numbers of the attempts in round ``number``, if a round has ``each`` of them."""
    return range(number * each, (number + 1) * each)


def made_under(
    skill_sha256: str, basis: str | None, records: Iterable[StepRecord]
) -> list[tuple[str, int]]:
    """The training attempts that ``records`` tell of, oldest first, as task and number.

    Only those under the skill of this name count; given a ``basis``, only those whose
    configuration and tasks were the same.
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
) -> tuple[Numbered, ...]:
    """Fresh attempts at ``tasks``: a step that repeats known answers would learn nothing new."""
    last = dict(sorted(made, key=lambda one: one[1]))
    return tuple(Numbered(task, last.get(task.id, -1) // each + 1) for task in tasks)


# Arrivals: results of attempts under way, each as soon as it and all before it are there.


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
