"""Rule: the verdict that follows from a meeting of two skills."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from skillopt_ci.config.config import Evaluation
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.records import GateRecord, Measurement, State
from skillopt_ci.training.gate import Contender, Gate, Verdict, admit_notes, exact, score
from skillopt_ci.training.gates.record import gate_record
from skillopt_ci.training.gates.regression import losses
from skillopt_ci.training.gates.verdicts import partial_rejection, tested
from skillopt_ci.training.meeting import Meeting


def rule(
    meeting: Meeting, state: State, evaluation: Evaluation, gate: Gate, types: Mapping[str, str]
) -> tuple[Verdict, GateRecord]:
    """The verdict and its arithmetic; ``types`` maps tasks to their types.

    Raises :class:`~skillopt_ci.errors.TooManyErrors` when no task was measured under all skills.
    """
    terms, outcome = meeting.terms, meeting.outcome
    verdict = _verdict(meeting, state, evaluation, gate)
    allowed = evaluation.gate.max_type_loss if evaluation.use_gate else None
    lost = losses(outcome.standoff, terms, types, allowed)
    if lost and verdict.action != "reject" and gate is not admit_notes:
        told = ", ".join(f"{kind} by {loss:.4g}" for kind, loss in lost.items())
        reason = f"{verdict.reason}, but types of task lost more than {allowed:g}: {told}"
        verdict = replace(verdict, action="reject", reason=reason, beats_best=False)
    return verdict, gate_record(outcome, terms, lost)


def _verdict(meeting: Meeting, state: State, evaluation: Evaluation, gate: Gate) -> Verdict:
    current, best = state.current.measurement, state.best.measurement
    shared = _shared(meeting.candidate, current, best)
    density = _density(current, evaluation)
    outcome, terms = meeting.outcome, meeting.terms
    if outcome.end in ("certain", "futile") and meeting.candidate.partial:
        return partial_rejection(outcome, terms, density)
    if terms.settings.policy == "strict":
        ours, theirs, record = (
            contender(one, shared) for one in (meeting.candidate, current, best)
        )
        return gate(ours, theirs, record, evaluation=evaluation)
    beats = state.best.sha256 == state.current.sha256 or score(
        contender(meeting.candidate, shared), evaluation
    ) > score(contender(best, shared), evaluation)
    return tested(outcome, terms, density, beats_best=beats)


def contender(measurement: Measurement, tasks: Sequence[str]) -> Contender:
    """What of a measurement the gate compares over ``tasks``."""
    scores = [measurement.tasks[task] for task in tasks]
    return Contender(scores, measurement.density, measurement.words)


def _shared(candidate: Measurement, current: Measurement, best: Measurement) -> list[str]:
    """The tasks that all sides measured, so that an error tips no scale."""
    shared = [task for task in candidate.tasks if task in current.tasks and task in best.tasks]
    if not shared:
        raise TooManyErrors("No selection task was measured under both skills.")
    return shared


def _density(current: Measurement, evaluation: Evaluation) -> Fraction:
    weight = evaluation.semantic_density_weight if evaluation.use_semantic_density else 0.0
    return exact(weight) * exact(current.density)
