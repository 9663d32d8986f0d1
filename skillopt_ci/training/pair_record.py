"""Comparison pairs as they are recorded: outcomes only, no texts of tasks or answers."""

import math
from collections.abc import Sequence

from skillopt_ci.ledger.records import PairRecord, PairSide
from skillopt_ci.training.pairs import Pair


def pair_records(pairs: Sequence[Pair]) -> tuple[PairRecord, ...]:
    """The record of each pair."""
    return tuple(
        PairRecord(
            id=pair.task.id,
            category=pair.category.value,
            previous=PairSide(hard=pair.before.hard, soft=pair.before.soft),
            current=PairSide(hard=pair.after.hard, soft=pair.after.soft),
        )
        for pair in pairs
    )


def means(pairs: Sequence[Pair]) -> tuple[float | None, float | None]:
    """Mean hard score before and after; None without pairs."""
    if not pairs:
        return None, None
    before = math.fsum(pair.before.hard for pair in pairs) / len(pairs)
    after = math.fsum(pair.after.hard for pair in pairs) / len(pairs)
    return before, after
