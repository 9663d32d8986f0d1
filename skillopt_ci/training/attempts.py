"""Attempts: rollouts that are told apart by their number, so that none is made twice unawares."""

from collections.abc import Callable, Iterable, Sequence
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
    skill_sha256: str, basis: str, records: Iterable[StepRecord]
) -> list[tuple[str, int]]:
    """The training attempts that ``records`` tell of, oldest first, as task and number.

    Only those under the skill of this name count, and only where configuration and tasks were the
    same (``basis``): anything else would not be answered from the cache.
    """
    return [
        (task.id, task.attempt)
        for record in records
        if record.proposal.attempted_under == skill_sha256 and record.basis_sha256 == basis
        for task in record.proposal.rollout.tasks
        if task.status.measured
    ]


def next_rounds(
    tasks: Iterable[Task], made: Iterable[tuple[str, int]], each: int
) -> tuple[Numbered, ...]:
    """Fresh attempts at ``tasks``: a step that repeats known answers would learn nothing new."""
    last = dict(sorted(made, key=lambda one: one[1]))
    return tuple(Numbered(task, last.get(task.id, -1) // each + 1) for task in tasks)
