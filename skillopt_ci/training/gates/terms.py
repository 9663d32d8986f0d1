"""The terms of a duel: which tasks count, in which order they are measured, what is sought."""

from collections.abc import Mapping, Sequence

from skillopt_ci.config.config import Evaluation, GateSettings
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.training.gate import Gate, admit_notes, exact
from skillopt_ci.training.gates.duel import Terms
from skillopt_ci.training.gates.tally import Tallies, Tally, tallies, worth_in
from skillopt_ci.training.measure import text_of

#: How much the mean of all tasks weighs beside what is known of a single one, in attempts.
_PRIOR_ATTEMPTS = 1.0


def terms_of(
    skill: str,
    planned: Sequence[str],
    current: Measurement,
    best: Measurement,
    past: Sequence[Tallies],
    evaluation: Evaluation,
    gate: Gate,
) -> Terms:
    """The terms on which the candidate ``skill`` meets the ``current`` one on ``planned`` tasks.

    Tasks that the skills so far solve least come first: there a candidate shows soonest that it
    gains nothing. ``past`` are the tallies of earlier candidates.
    """
    worth, text = worth_in(evaluation), text_of(skill, evaluation)
    known = tallies(current)
    mean = _mean(known, evaluation)
    rates = {task: _rate(task, [known, *past], mean, evaluation) for task in planned}
    eligible = frozenset(task for task in planned if task in known and task in best.tasks)
    order = sorted(planned, key=lambda task: (task not in eligible, rates[task]))
    dense = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    shorter = evaluation.ties == "prefer_shorter" and text.words < current.words
    return Terms(
        order=tuple(order),
        eligible=eligible,
        rates=rates,
        worth=worth,
        settings=_settings(evaluation, gate),
        bonus=exact(dense) * (exact(text.density) - exact(current.density)),
        tie_wins=shorter or gate is admit_notes,
    )


def _settings(evaluation: Evaluation, gate: Gate) -> GateSettings:
    """Reminders stay unless they do harm, and an open gate wants to know the whole score."""
    changes: dict[str, object] = {}
    if gate is admit_notes or not evaluation.use_gate:
        changes["policy"] = "strict"
    if not evaluation.use_gate:
        changes["early_stop"] = False
    return evaluation.gate.model_copy(update=changes)


def rotated(tasks: Sequence[str], size: int, turn: int) -> tuple[str, ...]:
    """The ``turn``-th part of ``size`` tasks, beginning anew at the end; all of them for 0."""
    if not 0 < size < len(tasks):
        return tuple(tasks)
    start = turn * size % len(tasks)
    return tuple((*tasks, *tasks)[start : start + size])


def _rate(
    task: str, sources: Sequence[Mapping[str, Tally]], mean: float, evaluation: Evaluation
) -> float:
    worth, found = worth_in(evaluation), [one[task] for one in sources if task in one]
    total = sum(float(worth(one)) * one.count for one in found)
    attempts = sum(one.count for one in found)
    return (total + mean * _PRIOR_ATTEMPTS) / (attempts + _PRIOR_ATTEMPTS)


def _mean(known: Mapping[str, Tally], evaluation: Evaluation) -> float:
    worth = worth_in(evaluation)
    return float(sum(map(worth, known.values())) / max(1, len(known)))
