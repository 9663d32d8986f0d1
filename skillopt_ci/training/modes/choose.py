"""The update mode that the configuration names."""

from typing import Any

from skillopt_ci.config.config import Optimizer
from skillopt_ci.training.modes.full_rewrite import FullRewriteMode
from skillopt_ci.training.modes.mode import UpdateMode
from skillopt_ci.training.modes.patch import PatchMode
from skillopt_ci.training.modes.rewrite import RewriteMode


def update_mode(optimizer: Optimizer) -> UpdateMode[Any]:
    """Return the mode of a run; what its patches consist of is known only now, hence ``Any``."""
    match optimizer.skill_update_mode:
        case "patch":
            return PatchMode()
        case "rewrite_from_suggestions":
            return RewriteMode(optimizer.rewrite_max_completion_tokens)
        case "full_rewrite_minibatch":
            return FullRewriteMode(optimizer.rewrite_max_completion_tokens)
