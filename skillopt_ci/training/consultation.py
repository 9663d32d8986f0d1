"""How often the selection tasks may be asked for a verdict: each one wears them out a little."""

from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Standing


def refuse_overuse(session: Session, standing: Standing) -> None:
    """Raise BudgetExhausted when ``evaluation.gate.max_consultations`` is used up.

    Choosing again and again by the same tasks fits the skill to them (adaptive overfitting).
    """
    if overused(session, standing):
        raise BudgetExhausted(
            f"{_asked(standing)} candidates were measured on the selection tasks, which is all "
            "that evaluation.gate.max_consultations allows.",
            hint="Add new selection tasks (and raise the limit), or finish the run.",
        )


def overused(session: Session, standing: Standing) -> bool:
    """Whether no further candidate may be measured on them."""
    most = session.config.evaluation.gate.max_consultations
    return bool(most) and _asked(standing) >= most


def _asked(standing: Standing) -> int:
    kinds = ("step", "slow_update")
    return sum(entry.kind in kinds and entry.tasks > 0 for entry in standing.history)
