"""Gate: whether a candidate becomes the current skill."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeVar

from skillopt_ci.settings.config import Evaluation

Metric = Literal["hard", "soft", "mixed"]
Number = TypeVar("Number", float, Fraction)

#: A score is a share: so many parts right of so many. The nearest share with at most this many
#: parts is the one that was meant by the float, and shares add up exactly where floats do not
#: (0.1 + 0.2 is more than 0.3): a tie must not pass for a gain because of rounding.
_PARTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a candidate; ``reason`` is the arithmetic in words.

    ``candidate`` and ``current`` are the gate scores that were compared.
    """

    action: Literal["accept_new_best", "accept", "reject"]
    reason: str
    candidate: float
    current: float


def gate_score(hard: Number, soft: Number, metric: Metric, weight: Number) -> Number:
    """The mean ``hard`` and ``soft`` score in the gate's metric; ``weight`` is soft's in a mix."""
    if metric == "mixed":
        return (1 - weight) * hard + weight * soft
    return hard if metric == "hard" else soft


def decide(
    candidate: Sequence[tuple[float, float]],
    current: Sequence[tuple[float, float]],
    best: Sequence[tuple[float, float]],
    *,
    evaluation: Evaluation,
) -> Verdict:
    """Judge the candidate by its (hard, soft) scores and those of the current and best skill.

    All three must be over the same, at least one, tasks. Only a mean strictly above the current
    skill's is accepted: a tie would change the document without evidence.
    """
    ours, theirs, record = (_mean(scores, evaluation) for scores in (candidate, current, best))
    tasks = "1 task" if len(candidate) == 1 else f"{len(candidate)} tasks"
    told = f"{_compared(ours, theirs)} on {tasks}"
    if ours <= theirs:
        return Verdict("reject", told, float(ours), float(theirs))
    if ours <= record:
        told = f"{told}, but not above the best skill's {_digits(record)}"
        return Verdict("accept", told, float(ours), float(theirs))
    return Verdict("accept_new_best", told, float(ours), float(theirs))


def _mean(scores: Sequence[tuple[float, float]], evaluation: Evaluation) -> Fraction:
    hard = sum((_share(hard) for hard, _ in scores), Fraction()) / len(scores)
    soft = sum((_share(soft) for _, soft in scores), Fraction()) / len(scores)
    return gate_score(hard, soft, evaluation.gate_metric, _share(evaluation.gate_mixed_weight))


def _share(score: float) -> Fraction:
    return Fraction(score).limit_denominator(_PARTS)


def _compared(ours: Fraction, theirs: Fraction) -> str:
    if ours == theirs:
        return f"{_digits(ours)} is the same as the current skill's score"
    word = "above" if ours > theirs else "below"
    gain = float(ours - theirs)
    return f"{_digits(ours)} is {abs(gain):.4g} {word} the current skill's {_digits(theirs)}"


def _digits(score: Fraction) -> str:
    return f"{float(score):.4f}"
