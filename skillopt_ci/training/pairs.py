"""Comparison pairs: the same tasks under the last epoch's skill and under this one's."""

import math
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from skillopt_ci.rollout.types import Rollout
from skillopt_ci.tasks.task import Task

Policy = Literal["mixed", "changed", "unchanged"]

#: Rolls the given tasks out under both skills: results of the earlier and of the later one.
RollOutBoth = Callable[[Sequence[Task]], Awaitable[tuple[Sequence[Rollout], Sequence[Rollout]]]]


class Category(StrEnum):
    """What happened to a task from one epoch to the next."""

    REGRESSED = "regressed"
    PERSISTENT_FAIL = "persistent_fail"
    IMPROVED = "improved"
    STABLE_SUCCESS = "stable_success"

    @property
    def changed(self) -> bool:
        """Whether the outcome differs between the two skills."""
        return self in (Category.REGRESSED, Category.IMPROVED)


@dataclass(frozen=True, slots=True)
class Side:
    """The measured attempts at a task under one skill, at least one."""

    attempts: tuple[Rollout, ...]

    @property
    def solved(self) -> Fraction:
        """The share of attempts that succeeded."""
        return Fraction(sum(one.succeeded for one in self.attempts), len(self.attempts))

    @property
    def hard(self) -> float:
        """The mean hard score."""
        return math.fsum(one.hard for one in self.attempts) / len(self.attempts)

    @property
    def soft(self) -> float:
        """The mean soft score."""
        return math.fsum(one.soft for one in self.attempts) / len(self.attempts)

    @property
    def telling(self) -> Rollout:
        """The attempt that is shown: the first that failed, if any did."""
        return next((one for one in self.attempts if one.failed), self.attempts[0])


@dataclass(frozen=True, slots=True)
class Pair:
    """One task under both skills."""

    task: Task
    before: Side
    after: Side

    @property
    def category(self) -> Category:
        """Solved more or less often than before; if neither, whether it mostly is."""
        before, after = self.before.solved, self.after.solved
        if before != after:
            return Category.IMPROVED if after > before else Category.REGRESSED
        mostly = after >= Fraction(1, 2)
        return Category.STABLE_SUCCESS if mostly else Category.PERSISTENT_FAIL


def pair_up(
    tasks: Sequence[Task], before: Iterable[Rollout], after: Iterable[Rollout]
) -> tuple[Pair, ...]:
    """Pair the results by task, in task order.

    A task of which infrastructure kept every attempt from being measured, on either side, says
    nothing about the skills and is left out (SkillOpt counts it as failed).
    """
    earlier, later = _measured(before), _measured(after)
    return tuple(
        Pair(task, earlier[task.id], later[task.id])
        for task in tasks
        if task.id in earlier and task.id in later
    )


async def sample_pairs(
    train: Sequence[Task], size: int, seed: int, policy: Policy, roll_out: RollOutBoth
) -> tuple[Pair, ...]:
    """Compare the skills on ``size`` training tasks, drawn by a shuffle with ``seed``.

    ``changed`` keeps tasks whose outcome changed and goes on through the shuffled rest, ``size``
    tasks at a time, until ``size`` of them are found or none is left. ``unchanged`` keeps the
    others. ``mixed`` keeps all.
    """
    order = sampling_order(train, seed)
    found: list[Pair] = []
    for start in range(0, len(order), size):
        drawn = order[start : start + size]
        pairs = pair_up(drawn, *await roll_out(drawn))
        found += [pair for pair in pairs if _wanted(pair, policy)]
        if policy != "changed" or len(found) >= size:
            break
    return tuple(found[:size])


def sampling_order(train: Sequence[Task], seed: int) -> list[Task]:
    """The tasks in the order in which they are drawn."""
    order = list(train)
    random.Random(seed).shuffle(order)
    return order


def _wanted(pair: Pair, policy: Policy) -> bool:
    return policy == "mixed" or pair.category.changed == (policy == "changed")


def _measured(rollouts: Iterable[Rollout]) -> Mapping[str, Side]:
    found: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        if rollout.status.measured:
            found.setdefault(rollout.task_id, []).append(rollout)
    return {task: Side(tuple(attempts)) for task, attempts in found.items()}
