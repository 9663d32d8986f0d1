"""The update modes, as runs have them."""

from skillopt_ci.config.config import Optimizer
from skillopt_ci.training.update import update_mode

PATCH, REWRITE, FULL_REWRITE = (
    update_mode(
        Optimizer.model_validate(
            {"skill_update_mode": name, "rewrite_max_completion_tokens": 9_000}
        )
    )
    for name in ("patch", "rewrite_from_suggestions", "full_rewrite_minibatch")
)
