"""The arithmetic of a duel, as it is recorded."""

import math
from collections.abc import Sequence
from fractions import Fraction

from skillopt_ci.ledger.records import GateRecord
from skillopt_ci.training.gates.duel import Outcome, Terms


def gate_record(outcome: Outcome, terms: Terms, losses: dict[str, float]) -> GateRecord:
    """What is remembered of a duel."""
    standoff, settings = outcome.standoff, terms.settings
    differences = standoff.differences(terms)
    doubts = settings.policy != "strict"
    return GateRecord(
        policy=settings.policy,
        planned=len(terms.order),
        compared=len(differences),
        difference=float(_mean(differences)),
        standard_error=_standard_error(differences),
        p_value=outcome.p_value,
        alpha=terms.alpha if doubts else None,
        margin=settings.min_effect if doubts else 0.0,
        confidence=settings.confidence if doubts else None,
        rounds=outcome.rounds,
        end=outcome.end,
        candidate_attempts=standoff.candidate_attempts,
        current_attempts=standoff.current_attempts,
        saved=len(terms.order) - len(standoff.asked),
        losses=losses,
    )


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / max(1, len(values))


def _standard_error(values: Sequence[Fraction]) -> float | None:
    count, mean = len(values), _mean(values)
    if count <= 1:
        return None
    variance = sum((one - mean) ** 2 for one in values) / (count - 1)
    return math.sqrt(variance / count)
