"""Schedule: who limits the edits of a step, and how, as a pure function of the step's number.

SkillOpt advances a counter, which skipped steps do not move and resuming does; here the step's
number is the only time, so that a resumed run and an uninterrupted one have the same budgets.
"""

import math
from typing import Literal

from skillopt_ci.config.config import Optimizer


def lr_control(optimizer: Optimizer) -> Literal["fixed", "autonomous", "none"]:
    """Who sets the number of edits: the schedule, the optimizer model, or nobody.

    Of whole documents there is one, so that there is nothing to limit.
    """
    if optimizer.skill_update_mode == "full_rewrite_minibatch":
        return "none"
    if optimizer.lr_scheduler == "autonomous" and optimizer.lr_control_mode == "fixed":
        return "autonomous"
    return optimizer.lr_control_mode


def analyst_budget(optimizer: Optimizer) -> int | None:
    """Most edits that one analyst may propose, the same in every step; None is no limit."""
    return None if lr_control(optimizer) == "none" else optimizer.learning_rate


def edit_budget(optimizer: Optimizer, step: int, total: int) -> int:
    """Most edits that step ``step`` of ``total`` may apply, where the schedule is in control.

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
