"""The gate: whether a candidate becomes the current skill, and the arithmetic that is recorded."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import variance

from skillopt_ci.config.config import Evaluation
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.records import Action, Decision, GateRecord, Measurement, State
from skillopt_ci.text import plural
from skillopt_ci.training.measure import Tallies, exact, gate_score, tallies
from skillopt_ci.training.sequential_test import Outcome, Setup, sequential_test, setup


def decide(
    setup: Setup,
    outcome: Outcome,
    candidate: Measurement,
    state: State,
    types: Mapping[str, str],
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Decision:
    """The verdict after a test; TooManyErrors when no task was measured under all skills."""
    current, best = state.current.measurement, state.best.measurement
    if not _shared(candidate, current, best):
        raise TooManyErrors("No selection task was measured under both skills.")
    if candidate.partial:
        decision = _partial_rejection(outcome, setup, current, evaluation)
    else:
        decision = compare(candidate, current, best, evaluation, notes_only=notes_only)
    allowed = evaluation.gate.max_type_loss if evaluation.use_gate else None
    lost = losses(outcome.candidate, setup, types, allowed)
    if lost and decision.action != "reject" and not notes_only:
        told = ", ".join(f"{kind} by {loss:.4g}" for kind, loss in lost.items())
        reason = f"{decision.reason}, but types of task lost more than {allowed:g}: {told}"
        decision = decision.model_copy(
            update={"action": "reject", "reason": reason, "beats_best": False}
        )
    return decision.model_copy(update={"gate": _gate_record(outcome, setup, lost)})


def replay(
    decision: Decision, state: State, evaluation: Evaluation, *, notes_only: bool = False
) -> Decision | None:
    """What the recorded measurements make of a ``decision``, with the ``state`` before it.

    None if they leave the verdict open: a rejection that stopped early was not certain.
    """
    found, current, best = decision.measurement, state.current.measurement, state.best.measurement
    if found is None:
        return None
    text, seen = (found.density, found.words), (*found.tasks, *found.errors)
    rest = [task for task in current.tasks if task not in found.asked]
    terms = setup(text, (*seen, *rest), current, best, (), evaluation, notes_only=notes_only)
    if terms.stop:  # where it ended then, not where the order of the tasks would have it end
        terms = replace(terms, order=(*seen, *rest), look_every=max(1, len(seen)))
    test, outcome = sequential_test(terms, tallies(found)), None
    try:
        ask = next(test)
        while not set(ask.tasks) & set(rest):
            ask = test.send({})  # these ended in errors
    except StopIteration as done:
        outcome = done.value
    if outcome is None:
        return None
    return decide(terms, outcome, found, state, {}, evaluation, notes_only=notes_only)


def compare(
    candidate: Measurement,
    current: Measurement,
    best: Measurement,
    evaluation: Evaluation,
    *,
    notes_only: bool = False,
) -> Decision:
    """Judge the candidate by its scores and those of the current and best skill.

    Only a mean strictly above the current skill's is accepted: a tie would change the document
    without evidence. What adds ``notes_only`` stays unless it scores lower.
    """
    ours, theirs, record = scores(candidate, current, best, evaluation)
    told = _told(ours, theirs, len(_shared(candidate, current, best)))

    def decision(action: Action, more: str = "", *, beats_best: bool = False) -> Decision:
        return _decision(evaluation, action, told + more, theirs, ours, beats_best=beats_best)

    def wins_tie(other: Measurement) -> bool:
        return evaluation.ties == "prefer_shorter" and candidate.words < other.words

    if notes_only:
        if ours >= theirs:
            more = ": the notes do no harm"
            return decision("accept_notes", more, beats_best=ours > record)
        if not evaluation.use_gate:
            return decision("accept_notes", ", notes are kept in any case")
        return decision("reject")
    if not evaluation.use_gate:
        return decision("force_accept", ", taken over in any case", beats_best=ours > record)
    shorter = ""
    if ours == theirs and wins_tie(current):
        shorter = f", but {current.words - candidate.words} words shorter"
    elif ours <= theirs:
        return decision("reject")
    if ours > record or (ours == record and wins_tie(best)):
        return decision("accept_new_best", shorter, beats_best=True)
    below = f"{shorter}, but not above the best skill's {float(record):.4f}"
    return decision("accept", below)


def _shared(*sides: Measurement) -> list[str]:
    """Only the tasks that all sides measured, so that an error tips no scale."""
    first, *others = sides
    return [task for task in first.tasks if all(task in other.tasks for other in others)]


def scores(
    candidate: Measurement, current: Measurement, best: Measurement, evaluation: Evaluation
) -> tuple[Fraction, ...]:
    """The exact gate scores: the mean in the configured metric, and the bonus for density."""
    sides = (candidate, current, best)
    shared, weight = _shared(*sides), exact(evaluation.gate_mixed_weight)
    found = []
    for side in sides:
        rows = [side.tasks[task] for task in shared]
        hard, soft = (
            sum(map(exact, column), Fraction()) / len(rows) for column in zip(*rows, strict=True)
        )
        mean = gate_score(hard, soft, evaluation.gate_metric, weight)
        found.append(mean + _bonus(side, evaluation))
    return tuple(found)


def _bonus(side: Measurement, evaluation: Evaluation) -> Fraction:
    if not evaluation.use_semantic_density:
        return Fraction()
    return exact(evaluation.semantic_density_weight) * exact(side.density)


def _decision(
    evaluation: Evaluation,
    action: Action,
    reason: str,
    before: Fraction,
    after: Fraction,
    *,
    beats_best: bool = False,
) -> Decision:
    return Decision(
        action=action,
        reason=reason,
        metric=evaluation.gate_metric,
        score_before=float(before),
        score_after=float(after),
        beats_best=beats_best,
    )


def _told(ours: Fraction, theirs: Fraction, count: int) -> str:
    tasks = plural(count, "task")
    if ours == theirs:
        return f"{float(ours):.4f} is the same as the current skill's score on {tasks}"
    word, gain = "above" if ours > theirs else "below", abs(float(ours - theirs))
    return (
        f"{float(ours):.4f} is {gain:.4g} {word} the current skill's {float(theirs):.4f} on {tasks}"
    )


def _partial_rejection(
    outcome: Outcome, setup: Setup, current: Measurement, evaluation: Evaluation
) -> Decision:
    """The verdict where tasks were left out: there it is taken to do as the current skill does."""
    counting = [task for task in setup.order if task in setup.eligible]
    before = _mean([setup.worth(setup.current[task]) for task in counting])
    before += _bonus(current, evaluation)
    differences = setup.differences(outcome.candidate)
    total = sum(differences, Fraction())
    gain = total / max(1, len(counting)) + setup.bonus
    told = (
        f"after {len(differences)} of {len(counting)} tasks "
        f"({float(total):+.4g} in sum) no gain was in reach"
    )
    return _decision(evaluation, "reject", told, before, before + gain)


def losses(
    candidate: Tallies, setup: Setup, types: Mapping[str, str], allowed: float | None
) -> dict[str, float]:
    if allowed is None:
        return {}
    groups: dict[str, list[Fraction]] = {}
    for task in setup.order:
        if task in setup.eligible and task in candidate and types.get(task):
            ours, theirs = candidate[task], setup.current[task]
            groups.setdefault(types[task], []).append(setup.worth(ours) - setup.worth(theirs))
    limit = Fraction(allowed).limit_denominator(1_000_000)
    lost = {kind: -_mean(differences) for kind, differences in sorted(groups.items())}
    return {kind: float(loss) for kind, loss in lost.items() if loss > limit}


def _gate_record(outcome: Outcome, setup: Setup, lost: dict[str, float]) -> GateRecord:
    differences = setup.differences(outcome.candidate)
    count = len(differences)
    return GateRecord(
        policy="strict",
        planned=len(setup.order),
        compared=count,
        difference=float(_mean(differences)),
        standard_error=math.sqrt(variance(differences) / count) if count > 1 else None,
        end=outcome.end,
        candidate_attempts=outcome.attempts,
        saved=len(setup.order) - len(outcome.asked),
        losses=lost,
    )


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / max(1, len(values))
