"""The gate: whether a candidate becomes the current skill, and the arithmetic that is recorded."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import variance

from skillopt_ci.config.config import Evaluation
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.records import Action, Decision, GateRecord, Measurement, State
from skillopt_ci.text import plural
from skillopt_ci.training.measure import Tallies, exact, gate_score
from skillopt_ci.training.sequential_test import Measured, Outcome, Setup


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
    if outcome.end in ("certain", "futile") and candidate.partial:
        decision = _partial_rejection(outcome, setup, current, evaluation)
    elif setup.settings.policy == "strict":
        decision = compare(candidate, current, best, evaluation, notes_only=notes_only)
    else:
        beats = state.best.sha256 == state.current.sha256
        ours, _, record = scores(candidate, current, best, evaluation)
        decision = _tested(outcome, setup, current, evaluation, beats_best=beats or ours > record)
    allowed = evaluation.gate.max_type_loss if evaluation.use_gate else None
    lost = losses(outcome.measured, setup, types, allowed)
    if lost and decision.action != "reject" and not notes_only:
        told = ", ".join(f"{kind} by {loss:.4g}" for kind, loss in lost.items())
        reason = f"{decision.reason}, but types of task lost more than {allowed:g}: {told}"
        decision = decision.model_copy(
            update={"action": "reject", "reason": reason, "beats_best": False}
        )
    return decision.model_copy(update={"gate": _gate_record(outcome, setup, lost)})


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


_ENDS = {"futile": "a gain was unlikely to be shown by the rest", "certain": "no gain was in reach"}


def _partial_rejection(
    outcome: Outcome, setup: Setup, current: Measurement, evaluation: Evaluation
) -> Decision:
    """The verdict where tasks were left out: there it is taken to do as the current skill does."""
    before = _mean_worth(outcome.measured.current, setup) + _bonus(current, evaluation)
    differences = outcome.measured.differences(setup)
    total = sum(differences, Fraction())
    gain = total / max(1, len(setup.eligible)) + setup.bonus
    told = (
        f"after {len(differences)} of {len(setup.eligible)} tasks "
        f"({float(total):+.4g} in sum) {_ENDS[outcome.end]}"
    )
    return _decision(evaluation, "reject", told, before, before + gain)


def _tested(
    outcome: Outcome,
    setup: Setup,
    current: Measurement,
    evaluation: Evaluation,
    *,
    beats_best: bool,
) -> Decision:
    """The verdict of the paired test on a candidate that was measured on all tasks."""
    measured = outcome.measured
    differences = measured.differences(setup)
    before = _mean_worth(measured.current, setup, measured.candidate) + _bonus(current, evaluation)
    gain = _mean(differences) + setup.bonus
    sure = "more than chance explains" if outcome.convincing else "not more than chance explains"
    over = f" beyond {setup.settings.min_effect:g}" if setup.settings.min_effect else ""
    p_value = 1.0 if outcome.p_value is None else outcome.p_value
    rounds = "" if outcome.rounds == 1 else f" after {outcome.rounds} rounds of attempts"
    told = (
        f"the difference of {float(gain):+.4g} on {plural(len(differences), 'task')}{rounds} is "
        f"{sure}{over} (p = {p_value:.3f}, accepted at {setup.alpha:.3g} or less)"
    )
    beats_best = beats_best and outcome.convincing
    action: Action = "accept" if outcome.convincing else "reject"
    if beats_best:
        action = "accept_new_best"
    return _decision(evaluation, action, told, before, before + gain, beats_best=beats_best)


def losses(
    measured: Measured, setup: Setup, types: Mapping[str, str], allowed: float | None
) -> dict[str, float]:
    """The types of task whose mean fell by more than ``allowed`` (None: any), and by how much."""
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


def _gate_record(outcome: Outcome, setup: Setup, lost: dict[str, float]) -> GateRecord:
    measured, settings = outcome.measured, setup.settings
    differences = measured.differences(setup)
    doubts, count = settings.policy != "strict", len(differences)
    error = math.sqrt(variance(differences) / count) if count > 1 else None
    return GateRecord(
        policy=settings.policy,
        planned=len(setup.order),
        compared=len(differences),
        difference=float(_mean(differences)),
        standard_error=error,
        p_value=outcome.p_value,
        alpha=setup.alpha if doubts else None,
        margin=settings.min_effect if doubts else 0.0,
        confidence=settings.confidence if doubts else None,
        rounds=outcome.rounds,
        end=outcome.end,
        candidate_attempts=measured.candidate_attempts,
        current_attempts=measured.current_attempts,
        saved=len(setup.order) - len(measured.asked),
        losses=lost,
    )


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / max(1, len(values))


def _mean_worth(tallies: Tallies, setup: Setup, among: Tallies | None = None) -> Fraction:
    """The mean over the tasks that count, ``among`` those that were measured on a side."""
    counting = [task for task in setup.order if task in setup.eligible]
    return _mean(
        [setup.worth(tallies[task]) for task in counting if among is None or task in among]
    )
