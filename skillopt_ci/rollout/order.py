"""An order for one attempt, and who carries it out."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from skillopt_ci.rollout.outcome import Rollout
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Order:
    """One attempt at ``task`` under ``skill``; ``stage`` is what its calls are booked under."""

    task: Task
    skill: str
    stage: str
    attempt: int = 0


CarryOut = Callable[[Order], Awaitable[Rollout]]


class Executor(Protocol):
    """Decides where an attempt is made."""

    async def __call__(self, order: Order, here: CarryOut) -> Rollout:
        """Return what came of ``order``; ``here`` makes the attempt in this process."""
        ...


async def local(order: Order, here: CarryOut) -> Rollout:
    """Make the attempt in this process."""
    return await here(order)


async def by_nobody(order: Order) -> None:
    """Nobody else makes ``order``: there is nothing to wait for."""
