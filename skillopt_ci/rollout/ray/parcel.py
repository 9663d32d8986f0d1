"""What goes to a worker of the cluster, and what comes back."""

from dataclasses import dataclass

from skillopt_ci.config.config import Limits
from skillopt_ci.rollout.types import Order


@dataclass(frozen=True, slots=True)
class Parcel:
    """One order with all that a worker needs for it, but no secret: those it has by itself.

    ``config`` is the configuration as JSON, ``root`` its folder, which every node must see under
    this path. ``name`` is the same for the same order: a worker that takes it up again after
    another one died finds what that one had paid for. ``limits`` are what the budgets allow it.
    """

    name: str
    config: str
    root: str
    order: Order
    limits: Limits


@dataclass(frozen=True, slots=True)
class Handover:
    """The ``answers`` that were paid for, as the lines of a shard's file.

    ``trouble`` says in words what kept the worker from measuring the attempt.
    """

    answers: tuple[str, ...] = ()
    trouble: str = ""
