"""Gate: whether a candidate becomes the current skill."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol, TypeVar

from skillopt_ci.config.config import Evaluation

Metric = Literal["hard", "soft", "mixed"]
Number = TypeVar("Number", float, Fraction)

#: A score is a share: so many parts right of so many. The nearest share with at most this many
#: parts is the one that was meant by the float, and shares add up exactly where floats do not
#: (0.1 + 0.2 is more than 0.3): a tie must not pass for a gain because of rounding.
_PARTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Contender:
    """A skill at the gate: its (hard, soft) ``scores``, and what counts of its text.

    ``density`` is its share of leading words (0 to 1), ``words`` its length.
    """

    scores: Sequence[tuple[float, float]]
    density: float = 0.0
    words: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a candidate; ``reason`` is the arithmetic in words.

    ``candidate`` and ``current`` are the gate scores that were compared. ``beats_best`` says
    whether the candidate is better than the best skill, also where the gate stands open.
    """

    action: Literal["accept_new_best", "accept", "accept_notes", "force_accept", "reject"]
    reason: str
    candidate: float
    current: float
    beats_best: bool = False


class Gate(Protocol):
    """Decides on a candidate, like :func:`decide`."""

    def __call__(
        self, candidate: Contender, current: Contender, best: Contender, *, evaluation: Evaluation
    ) -> Verdict:
        """Return the verdict."""
        ...


def gate_score(hard: Number, soft: Number, metric: Metric, weight: Number) -> Number:
    """The mean ``hard`` and ``soft`` score in the gate's metric; ``weight`` is soft's in a mix."""
    if metric == "mixed":
        return (1 - weight) * hard + weight * soft
    return hard if metric == "hard" else soft


def decide(
    candidate: Contender, current: Contender, best: Contender, *, evaluation: Evaluation
) -> Verdict:
    """Judge the candidate by its scores and those of the current and best skill.

    All three must be over the same, at least one, tasks. Only a mean strictly above the current
    skill's is accepted: a tie would change the document without evidence. The configuration may
    prefer the shorter document of two that tie, or open the gate.
    """
    ours, theirs, record = (score(one, evaluation) for one in (candidate, current, best))
    told, scores = _told(ours, theirs, len(candidate.scores)), (float(ours), float(theirs))
    beats_best = ours > record or (ours == record and _shorter(candidate, best, evaluation))
    if not evaluation.use_gate:
        return Verdict("force_accept", f"{told}, taken over in any case", *scores, ours > record)
    if ours == theirs and _shorter(candidate, current, evaluation):
        told = f"{told}, but {current.words - candidate.words} words shorter"
    elif ours <= theirs:
        return Verdict("reject", told, *scores)
    if beats_best:
        return Verdict("accept_new_best", told, *scores, beats_best)
    told = f"{told}, but not above the best skill's {_digits(record)}"
    return Verdict("accept", told, *scores)


def admit_notes(
    candidate: Contender, current: Contender, best: Contender, *, evaluation: Evaluation
) -> Verdict:
    """Judge a candidate that only adds reminders: it stays unless it scores lower.

    With the gate open it stays in any case.
    """
    ours, theirs, record = (score(one, evaluation) for one in (candidate, current, best))
    told, scores = _told(ours, theirs, len(candidate.scores)), (float(ours), float(theirs))
    if ours >= theirs:
        return Verdict("accept_notes", f"{told}: the notes do no harm", *scores, ours > record)
    if not evaluation.use_gate:
        return Verdict("accept_notes", f"{told}, notes are kept in any case", *scores)
    return Verdict("reject", told, *scores)


def score(contender: Contender, evaluation: Evaluation) -> Fraction:
    """The exact gate score: the mean in the configured metric, and the bonus for density."""
    count = len(contender.scores)
    hard = sum((exact(hard) for hard, _ in contender.scores), Fraction()) / count
    soft = sum((exact(soft) for _, soft in contender.scores), Fraction()) / count
    mean = gate_score(hard, soft, evaluation.gate_metric, exact(evaluation.gate_mixed_weight))
    if not evaluation.use_semantic_density:
        return mean
    return mean + exact(evaluation.semantic_density_weight) * exact(contender.density)


def _shorter(one: Contender, other: Contender, evaluation: Evaluation) -> bool:
    return evaluation.ties == "prefer_shorter" and one.words < other.words


# a duel asks this of the same few scores again and again
@lru_cache(maxsize=4096)
def exact(score: float) -> Fraction:
    """The share that a float stands for."""
    return Fraction(score).limit_denominator(_PARTS)


def _told(ours: Fraction, theirs: Fraction, count: int) -> str:
    tasks = "1 task" if count == 1 else f"{count} tasks"
    if ours == theirs:
        return f"{_digits(ours)} is the same as the current skill's score on {tasks}"
    word, gain = "above" if ours > theirs else "below", abs(float(ours - theirs))
    return f"{_digits(ours)} is {gain:.4g} {word} the current skill's {_digits(theirs)} on {tasks}"


def _digits(score: Fraction) -> str:
    return f"{float(score):.4f}"
