"""How many attempts a limit ended, and how many of the failures."""

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.rollout.steps import Limit


@dataclass(frozen=True, slots=True)
class LimitShare:
    """The share of attempts that ``limit`` ended: of all measured, and of the unsolved ones.

    ``of_unsolved`` is None where every measured attempt solved its task.
    """

    limit: Limit
    of_all: float
    of_unsolved: float | None


def limit_shares(ended: Sequence[tuple[Limit | None, bool]]) -> tuple[LimitShare, ...]:
    """Shares for each limit that ended some of the attempts, given as (limit, solved)."""
    unsolved = [limit for limit, solved in ended if not solved]
    everyone = [limit for limit, _ in ended]
    return tuple(
        LimitShare(limit, everyone.count(limit) / len(everyone), _share(unsolved, limit))
        for limit in Limit
        if limit in everyone
    )


def model_ended(ended: Sequence[tuple[Limit | None, bool]]) -> float | None:
    """The share of the unsolved attempts that no limit ended; None where there are none."""
    return _share([limit for limit, solved in ended if not solved], None)


def _share(limits: Sequence[Limit | None], wanted: Limit | None) -> float | None:
    return limits.count(wanted) / len(limits) if limits else None
