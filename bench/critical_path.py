"""How long a run must at least take: its chain of calls that wait for each other."""

import math
from collections.abc import Sequence
from itertools import groupby

#: Phases that need not wait for each other count as one.
_SIDE_BY_SIDE = {"optimizer/slow_update": "advice", "optimizer/meta_skill": "advice"}


def rounds(trace: Sequence[tuple[str, float]], limit: int) -> int:
    """The fewest rounds of calls, ``limit`` at once, in which the work of ``trace`` can be done.

    Calls of one phase that follow each other (rollouts, minibatches of analysts, a level of
    merging) do not depend on each other; each change of phase does. A pipelined run can beat it.
    """
    phases = (_SIDE_BY_SIDE.get(phase, phase) for phase, _ in sorted(trace, key=lambda one: one[1]))
    return sum(math.ceil(len(list(wave)) / limit) for _, wave in groupby(phases))
