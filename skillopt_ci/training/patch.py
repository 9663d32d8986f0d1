"""What analysts propose: a patch is a set of edits with the reasoning behind them."""

from dataclasses import dataclass

from skillopt_ci.skill.edit import Edit, Source


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """A kind of failure that an analyst saw in a minibatch, and the tasks of that minibatch."""

    failure_type: str
    description: str
    count: int
    task_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patch:
    """Proposed edits, in application order."""

    edits: tuple[Edit, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Reflection:
    """An analyst's answer about one minibatch.

    ``batch_size`` is the number of trajectories that it really saw, ``task_ids`` which ones.
    """

    source_type: Source
    patch: Patch
    task_ids: tuple[str, ...]
    batch_size: int
    failure_patterns: tuple[FailurePattern, ...] = ()
    success_patterns: tuple[str, ...] = ()
