"""Baseline: the score that later candidates are held against, once a candidate is accepted."""

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Decision, Measurement
from skillopt_ci.training.gates.tally import Tally, tallies
from skillopt_ci.training.measure import measure, measurement_of
from skillopt_ci.training.session import Bench, Session


async def with_baseline(
    session: Session, decision: Decision, skill: str, bench: Bench, evaluation: Evaluation
) -> Decision:
    """Measure what is missing of an accepted ``skill``, or all of it afresh.

    A score that won a comparison is on average too high (the winner's curse), so that candidates
    as good as the skill, or a little better, would be turned away. With
    ``evaluation.gate.remeasure`` the winning attempts are put aside and new ones count.
    """
    found = decision.measurement
    if found is None or decision.gate is None or not decision.stays:
        return decision
    if evaluation.gate.remeasure and evaluation.use_gate:
        baseline = await _measure(session, skill, bench, evaluation, found.next_attempt)
        attempts = baseline.n + len(baseline.errors)
    else:
        baseline = await _completed(session, skill, bench, evaluation, found)
        attempts = baseline.n + len(baseline.errors) - found.n - len(found.errors)
        if not attempts:
            return decision
    record = decision.gate.model_copy(update={"baseline_attempts": attempts})
    return decision.model_copy(update={"baseline": baseline, "gate": record})


async def _measure(
    session: Session, skill: str, bench: Bench, evaluation: Evaluation, attempt: int
) -> Measurement:
    return await measure(
        skill,
        session.selection,
        runner=bench.runner,
        evaluation=evaluation,
        observer=session.observer,
        attempt=attempt,
    )


async def _completed(
    session: Session, skill: str, bench: Bench, evaluation: Evaluation, found: Measurement
) -> Measurement:
    """The measurement with the tasks that the verdict did not need."""
    asked = {*found.tasks, *found.errors}
    missing = [task for task in session.selection if task.id not in asked]
    if not missing:
        return found
    rest = await measure(
        skill,
        missing,
        runner=bench.runner,
        evaluation=evaluation,
        observer=session.observer,
        attempt=found.first_attempt,
    )
    both: dict[str, Tally] = {**tallies(found), **tallies(rest)}
    names = [task.id for task in session.selection]
    return measurement_of(
        {name: both[name] for name in names if name in both},
        [name for name in names if name in (*found.errors, *rest.errors)],
        evaluation,
        skill,
        0,
        found.first_attempt,
    )
