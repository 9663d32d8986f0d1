"""The verdict on a candidate after a comparison, and what is recorded of it."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from skillopt_ci.ledger.records import GateRecord
from skillopt_ci.training.measure import (
    Tallies,
    Verdict,
)
from skillopt_ci.training.sequential_test import (
    Measured,
    Outcome,
    Setup,
)


def gate_record(outcome: Outcome, setup: Setup, losses: dict[str, float]) -> GateRecord:
    """What is remembered of a test."""
    measured, settings = outcome.measured, setup.settings
    differences = measured.differences(setup)
    doubts = settings.policy != "strict"
    return GateRecord(
        policy=settings.policy,
        planned=len(setup.order),
        compared=len(differences),
        difference=float(_mean(differences)),
        standard_error=_standard_error(differences),
        p_value=outcome.p_value,
        alpha=setup.alpha if doubts else None,
        margin=settings.min_effect if doubts else 0.0,
        confidence=settings.confidence if doubts else None,
        rounds=outcome.rounds,
        end=outcome.end,
        candidate_attempts=measured.candidate_attempts,
        current_attempts=measured.current_attempts,
        saved=len(setup.order) - len(measured.asked),
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


def losses(
    measured: Measured, setup: Setup, types: Mapping[str, str], allowed: float | None
) -> dict[str, float]:
    """The types of task whose mean score fell by more than ``allowed``, and by how much.

    Tasks without a type are no type. None allows any loss.
    """
    if allowed is None:
        return {}
    groups: dict[str, list[Fraction]] = {}
    for task in setup.order:
        if task in setup.eligible and task in measured.candidate and types.get(task):
            ours, theirs = measured.candidate[task], measured.current[task]
            groups.setdefault(types[task], []).append(setup.worth(ours) - setup.worth(theirs))
    limit = Fraction(allowed).limit_denominator(1_000_000)
    lost = {kind: -_mean(differences) for kind, differences in sorted(groups.items())}
    return {kind: float(loss) for kind, loss in lost.items() if loss > limit}


_ENDS = {"futile": "a gain was unlikely to be shown by the rest", "certain": "no gain was in reach"}


def partial_rejection(outcome: Outcome, setup: Setup, density: Fraction) -> Verdict:
    """The verdict on a candidate of which not all tasks were measured.

    Its score is an estimate: where it was not tried, it is taken to do as the current skill does.
    ``density`` is what the current skill's words add to its score.
    """
    before = _mean_worth(outcome.measured.current, setup) + density
    differences = outcome.measured.differences(setup)
    gain = sum(differences, Fraction()) / max(1, len(setup.eligible)) + setup.bonus
    told = (
        f"after {len(differences)} of {len(setup.eligible)} tasks "
        f"({_signed(sum(differences, Fraction()))} in sum) {_ENDS[outcome.end]}"
    )
    return Verdict("reject", told, float(before + gain), float(before))


def tested(outcome: Outcome, setup: Setup, density: Fraction, *, beats_best: bool) -> Verdict:
    """The verdict of the paired test on a candidate that was measured on all tasks."""
    differences = outcome.measured.differences(setup)
    current = _mean_worth(outcome.measured.current, setup, outcome.measured.candidate) + density
    gain = sum(differences, Fraction()) / len(differences) + setup.bonus
    told = _test_in_words(outcome, setup, gain, len(differences))
    scores = float(current + gain), float(current)
    if not outcome.convincing:
        return Verdict("reject", told, *scores)
    return Verdict("accept_new_best" if beats_best else "accept", told, *scores, beats_best)


def _test_in_words(outcome: Outcome, setup: Setup, gain: Fraction, count: int) -> str:
    sure = "more than chance explains" if outcome.convincing else "not more than chance explains"
    over = f" beyond {setup.settings.min_effect:g}" if setup.settings.min_effect else ""
    p_value = 1.0 if outcome.p_value is None else outcome.p_value
    rounds = "" if outcome.rounds == 1 else f" after {outcome.rounds} rounds of attempts"
    tasks = "1 task" if count == 1 else f"{count} tasks"
    return (
        f"the difference of {_signed(gain)} on {tasks}{rounds} is {sure}{over} "
        f"(p = {p_value:.3f}, accepted at {setup.alpha:.3g} or less)"
    )


def _mean_worth(tallies: Tallies, setup: Setup, among: Tallies | None = None) -> Fraction:
    known = [tallies[task] for task in setup.order if _counts(task, setup, among)]
    return sum(map(setup.worth, known), Fraction()) / max(1, len(known))


def _counts(task: str, setup: Setup, among: Tallies | None) -> bool:
    return task in setup.eligible and (among is None or task in among)


def _signed(value: Fraction) -> str:
    return f"{float(value):+.4g}"
