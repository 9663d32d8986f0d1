"""Which attempt something belongs to, known wherever that attempt's work goes."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from skillopt_ci.rollout.order import Order


@dataclass(frozen=True, slots=True)
class Labels:
    """One try at one attempt; ``retry`` counts the tries before it."""

    stage: str = ""
    task: str = ""
    attempt: int = 0
    retry: int = 0


_LABELS: ContextVar[Labels] = ContextVar("labels")


def labels() -> Labels:
    """The labels of the work under way; empty ones outside of an attempt."""
    return _LABELS.get(Labels())


@contextmanager
def labelled(order: Order) -> Iterator[None]:
    """Label what the body does, in tasks of its own too, as part of ``order``."""
    token = _LABELS.set(Labels(order.stage, order.task.id, order.attempt))
    try:
        yield
    finally:
        _LABELS.reset(token)


@contextmanager
def retried(number: int) -> Iterator[None]:
    """Label what the body does as the retry ``number``."""
    token = _LABELS.set(replace(labels(), retry=number))
    try:
        yield
    finally:
        _LABELS.reset(token)
