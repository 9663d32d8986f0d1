"""Schedule: how many edits a step may apply, as a pure function of the step's number.

SkillOpt advances a counter, which skipped steps do not move and resuming does; here the step's
number is the only time, so that a resumed run and an uninterrupted one have the same budgets.
"""

import math

from skillopt_ci.settings.config import Optimizer


def edit_budget(optimizer: Optimizer, step: int, total: int) -> int:
    """Most edits that step ``step`` of ``total`` may apply.

    Falls from ``learning_rate`` to ``min_learning_rate`` (never above the former) along a line or
    half a cosine; the first step is already a little way down, the last is at the bottom. A run
    of one step has no way to go and keeps the maximum.
    """
    top = optimizer.learning_rate
    bottom = min(optimizer.min_learning_rate, top)
    if optimizer.lr_scheduler == "constant" or total <= 1:
        return top
    elapsed = min(step, total) / total
    if optimizer.lr_scheduler == "linear":
        return round(top + (bottom - top) * elapsed)
    return round(bottom + 0.5 * (top - bottom) * (1 + math.cos(math.pi * elapsed)))
