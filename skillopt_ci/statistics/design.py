"""Two-level designs: which changes are tried together, so that each one's effect shows."""

import random


def balanced_subsets(items: int, runs: int, seed: int) -> tuple[frozenset[int], ...]:
    """``runs`` different subsets of the numbers 0 to ``items`` - 1, each number in half of them.

    In the columns of a Hadamard matrix every change is on in half of the runs, and any two are on
    together in a quarter, so that every run says something about every change (Plackett and
    Burman, 1946). ``seed`` deals the columns; where there are more changes than columns, the
    further ones are balanced draws. With fewer subsets than ``runs``, all of them are returned.
    """
    if items == 0 or runs <= 0:
        return ()
    draw = random.Random(seed)
    if 2**items <= runs:
        numbers = list(range(2**items))
        draw.shuffle(numbers)
        return tuple(frozenset(i for i in range(items) if n >> i & 1) for n in numbers)
    columns = _columns(items, runs, draw)
    subsets = (frozenset(i for i, column in enumerate(columns) if column[r]) for r in range(runs))
    return tuple(dict.fromkeys(subsets))


def _columns(items: int, runs: int, draw: random.Random) -> list[list[bool]]:
    size = 1
    while size < runs:
        size *= 2
    walsh = [[(r & c).bit_count() % 2 == 0 for r in range(size)] for c in range(1, size)]
    draw.shuffle(walsh)
    rows = draw.sample(range(size), runs)
    columns = [[column[r] for r in rows] for column in walsh[:items]]
    columns += [_balanced(runs, draw) for _ in range(items - len(columns))]
    flips = [draw.choice((False, True)) for _ in columns]
    return [[on != flip for on in column] for column, flip in zip(columns, flips, strict=True)]


def _balanced(runs: int, draw: random.Random) -> list[bool]:
    column = [r % 2 == 0 for r in range(runs)]
    draw.shuffle(column)
    return column
