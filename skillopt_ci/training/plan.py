"""Plan: which training tasks a step works on, as a pure function of the step's number.

Every epoch goes once through all training tasks, in an order of its own that depends on nothing
but the seed, the epoch and the order of the task file. Steps and epochs count from 1; steps go on
counting across epochs.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from skillopt_ci.config.config import Train
from skillopt_ci.errors import ConfigError
from skillopt_ci.tasks.task import Task

Item = TypeVar("Item")

#: Distance between the seeds of two epochs.
EPOCH_STRIDE = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks that are rolled out and reflected on together, with the seed of their reflection."""

    seed: int
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: its place in the run and its ``train.accumulation`` batches."""

    step: int
    epoch: int
    step_in_epoch: int
    is_last_of_epoch: bool
    batches: tuple[Batch, ...]


def steps_per_epoch(n_train: int, batch_size: int, accumulation: int) -> int:
    """Number of steps in which ``n_train`` tasks are gone through once."""
    return math.ceil(n_train / (batch_size * accumulation))


def total_steps(n_train: int, train: Train) -> int:
    """Number of the run's last step.

    Raises :class:`~skillopt_ci.errors.ConfigError` when ``train.train_size`` is set and is not the
    number of training tasks.
    """
    if train.train_size not in (0, n_train):
        raise ConfigError(
            f"train.train_size is {train.train_size}, but there are {n_train} training tasks.",
            hint="Leave it out, or set it to 0, to use all of them.",
        )
    return train.num_epochs * steps_per_epoch(n_train, train.batch_size, train.accumulation)


def plan_step(
    tasks: Sequence[Task], train: Train, step: int, first_seed: int | None = None
) -> StepPlan:
    """Plan step number ``step`` (1 to :func:`total_steps`) over the training ``tasks``.

    The epoch's order is a shuffle by ``seed + epoch * 1000``; batch k (from 0) of the epoch takes
    the k-th slice of ``batch_size`` tasks and has the seed ``seed + epoch * 1000 + k + 1``. The
    last slice may be short; where nothing is left (few tasks, much accumulation) the batch is
    drawn anew from all tasks by its own seed.

    Generated tasks are batches from the start, made with ``first_seed`` and the seeds after it:
    here the batches are shuffled and stay as they are.

    Raises :class:`ValueError` for a step outside the run.
    """
    last = total_steps(len(tasks), train)
    if not 1 <= step <= last:
        raise ValueError(f"step {step} is not within 1 to {last}")
    per_epoch = last // train.num_epochs
    epoch, position = divmod(step - 1, per_epoch)
    seed = train.seed + (epoch + 1) * EPOCH_STRIDE
    batch = (
        _drawn(tasks, train.batch_size, seed)
        if first_seed is None
        else _made(tasks, train.batch_size, seed, first_seed)
    )
    first = position * train.accumulation
    return StepPlan(
        step=step,
        epoch=epoch + 1,
        step_in_epoch=position + 1,
        is_last_of_epoch=position + 1 == per_epoch,
        batches=tuple(batch(k) for k in range(first, first + train.accumulation)),
    )


def _drawn(tasks: Sequence[Task], size: int, epoch_seed: int) -> Callable[[int], Batch]:
    order = _shuffled(tasks, epoch_seed)

    def batch(k: int) -> Batch:
        seed = epoch_seed + k + 1
        drawn = order[k * size : (k + 1) * size] or _shuffled(tasks, seed)[:size]
        return Batch(seed, tuple(drawn))

    return batch


def _made(
    tasks: Sequence[Task], size: int, epoch_seed: int, first_seed: int
) -> Callable[[int], Batch]:
    batches = [
        Batch(first_seed + number, tuple(tasks[start : start + size]))
        for number, start in enumerate(range(0, len(tasks), size))
    ]
    return _shuffled(batches, epoch_seed).__getitem__


def _shuffled(items: Sequence[Item], seed: int) -> list[Item]:
    order = list(items)
    random.Random(seed).shuffle(order)
    return order
