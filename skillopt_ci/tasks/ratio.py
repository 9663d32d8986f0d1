"""Dividing one list of tasks by a ratio, the same way for the same seed."""

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import TypeVar

Item = TypeVar("Item")


def split_counts(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Share out ``total`` by largest remainder; a tie goes to the larger weight, then the first."""
    whole = sum(weights)
    counts = [total * weight // whole for weight in weights]
    by_claim = sorted(
        range(len(weights)), key=lambda i: (-(total * weights[i] % whole), -weights[i], i)
    )
    for i in by_claim[: total - sum(counts)]:
        counts[i] += 1
    return tuple(counts)


def divide(items: Sequence[Item], ratio: str, seed: int) -> tuple[tuple[Item, ...], ...]:
    """Shuffle ``items`` with ``seed`` and cut them by ``ratio`` (``a:b:c``), in shuffled order."""
    shuffled = list(items)
    Random(seed).shuffle(shuffled)
    counts = split_counts(len(shuffled), [int(part) for part in ratio.split(":")])
    ends = list(accumulate(counts))
    return tuple(
        tuple(shuffled[end - count : end]) for end, count in zip(ends, counts, strict=True)
    )
