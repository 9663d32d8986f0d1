"""What becomes of a candidate after a duel, with the arithmetic in words."""

from fractions import Fraction

from skillopt_ci.training.gate import Verdict
from skillopt_ci.training.gates.duel import Outcome, Terms
from skillopt_ci.training.gates.tally import Tallies

_ENDS = {"futile": "a gain was unlikely to be shown by the rest", "certain": "no gain was in reach"}


def partial_rejection(outcome: Outcome, terms: Terms, density: Fraction) -> Verdict:
    """The verdict on a candidate of which not all tasks were measured.

    Its score is an estimate: where it was not tried, it is taken to do as the current skill does.
    ``density`` is what the current skill's words add to its score.
    """
    before = _mean(outcome.standoff.current, terms) + density
    differences = outcome.standoff.differences(terms)
    gain = sum(differences, Fraction()) / max(1, len(terms.eligible)) + terms.bonus
    told = (
        f"after {len(differences)} of {len(terms.eligible)} tasks "
        f"({_signed(sum(differences, Fraction()))} in sum) {_ENDS[outcome.end]}"
    )
    return Verdict("reject", told, float(before + gain), float(before))


def tested(outcome: Outcome, terms: Terms, density: Fraction, *, beats_best: bool) -> Verdict:
    """The verdict of the paired test on a candidate that was measured on all tasks."""
    differences = outcome.standoff.differences(terms)
    current = _mean(outcome.standoff.current, terms, outcome.standoff.candidate) + density
    gain = sum(differences, Fraction()) / len(differences) + terms.bonus
    told = _test_in_words(outcome, terms, gain, len(differences))
    scores = float(current + gain), float(current)
    if not outcome.convincing:
        return Verdict("reject", told, *scores)
    return Verdict("accept_new_best" if beats_best else "accept", told, *scores, beats_best)


def _test_in_words(outcome: Outcome, terms: Terms, gain: Fraction, count: int) -> str:
    sure = "more than chance explains" if outcome.convincing else "not more than chance explains"
    over = f" beyond {terms.settings.min_effect:g}" if terms.settings.min_effect else ""
    p_value = 1.0 if outcome.p_value is None else outcome.p_value
    rounds = "" if outcome.rounds == 1 else f" after {outcome.rounds} rounds of attempts"
    tasks = "1 task" if count == 1 else f"{count} tasks"
    return (
        f"the difference of {_signed(gain)} on {tasks}{rounds} is {sure}{over} "
        f"(p = {p_value:.3f}, accepted at {terms.alpha:.3g} or less)"
    )


def _mean(tallies: Tallies, terms: Terms, among: Tallies | None = None) -> Fraction:
    known = [tallies[task] for task in terms.order if _counts(task, terms, among)]
    return sum(map(terms.worth, known), Fraction()) / max(1, len(known))


def _counts(task: str, terms: Terms, among: Tallies | None) -> bool:
    return task in terms.eligible and (among is None or task in among)


def _signed(value: Fraction) -> str:
    return f"{float(value):+.4g}"
