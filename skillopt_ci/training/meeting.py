"""Meeting: a candidate meets the current skill on the selection tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.rollout.types import Order
from skillopt_ci.training.contest import Side, fight, orders_of
from skillopt_ci.training.gate import Gate, decide
from skillopt_ci.training.gates.duel import Outcome, Standoff, Terms, duel
from skillopt_ci.training.gates.tally import tallies
from skillopt_ci.training.gates.terms import rotated, terms_of
from skillopt_ci.training.measure import measurement_of, with_reservations
from skillopt_ci.training.memory import past_tallies
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Settled


@dataclass(frozen=True, slots=True)
class Meeting:
    """A duel that was fought, and what it says of both skills.

    ``candidate`` is partial where measuring stopped early; ``incumbent`` is the current skill's
    measurement with the attempts that were added, None if there are none.
    """

    terms: Terms
    outcome: Outcome
    candidate: Measurement
    incumbent: Measurement | None


def planned_tasks(session: Session, standing: Settled, evaluation: Evaluation) -> tuple[str, ...]:
    """The selection tasks on which the next candidate is compared."""
    names = [task.id for task in session.selection]
    size = evaluation.gate.subset if evaluation.use_gate else 0
    return rotated(names, size, standing.state.step)


async def meet(
    session: Session,
    standing: Settled,
    skill: str,
    known: Measurement | None,
    bench: Bench,
    evaluation: Evaluation,
    gate: Gate,
) -> Meeting:
    """Measure ``skill``, of which some may be ``known``, as far as the verdict needs it."""
    current = standing.state.current.measurement
    planned = planned_tasks(session, standing, evaluation)
    terms = _terms(session, standing, skill, planned, evaluation, gate)
    if known is not None and set(planned) <= {*known.tasks, *known.errors}:
        whole = terms.settings.model_copy(update={"early_stop": False})
        terms = replace(terms, settings=whole)
    candidate = Side(skill, 0 if known is None else known.first_attempt)
    incumbent = Side(standing.skill, current.first_attempt)
    battle = duel(terms, tallies(current), {} if known is None else tallies(known))
    outcome, scores = await fight(
        session, bench, battle, candidate, incumbent, len(planned), current.tasks
    )
    standoff = outcome.standoff
    found = _of_candidate(session, standoff, candidate, evaluation, len(planned))
    if scores.total:
        found = with_reservations(found, scores, bench.runner.caveat)
    return Meeting(
        terms,
        outcome,
        found,
        _of_current(standoff, current, incumbent, evaluation),
    )


def first_attempts(
    session: Session, standing: Settled, skill: str, evaluation: Evaluation
) -> tuple[Order, ...]:
    """The attempts with which :func:`meet` begins for a candidate of which nothing is known."""
    planned = planned_tasks(session, standing, evaluation)
    terms = _terms(session, standing, skill, planned, evaluation, decide)
    current = standing.state.current.measurement
    first = next(duel(terms, tallies(current), {}))
    sides = (Side(skill), Side(standing.skill, current.first_attempt))
    return tuple(
        order
        for ask in (first, *first.sure({}))
        for side, lot in zip(sides, (ask.candidate, ask.current), strict=True)
        for order in orders_of(session, side, lot)
    )


def _terms(
    session: Session,
    standing: Settled,
    skill: str,
    planned: Sequence[str],
    evaluation: Evaluation,
    gate: Gate,
) -> Terms:
    current, best = standing.state.current.measurement, standing.state.best.measurement
    past = past_tallies(session, standing)
    return terms_of(skill, planned, current, best, past, evaluation, gate)


def _of_candidate(
    session: Session, standoff: Standoff, side: Side, evaluation: Evaluation, planned: int
) -> Measurement:
    """In the tasks' own order, whatever order they were measured in."""
    found = standoff.candidate
    names = [task.id for task in session.selection if task.id in standoff.asked]
    return measurement_of(
        {name: found[name] for name in names if name in found},
        [name for name in names if name not in found],
        evaluation,
        side.skill,
        planned if len(names) < planned else 0,
        side.first,
    )


def _of_current(
    standoff: Standoff, before: Measurement, side: Side, evaluation: Evaluation
) -> Measurement | None:
    if not standoff.current_attempts:
        return None
    names = {*before.tasks, *standoff.current}
    ordered = {name: standoff.current[name] for name in (*before.tasks, *standoff.current)}
    errors = [name for name in before.errors if name not in names]
    return measurement_of(ordered, errors, evaluation, side.skill, 0, side.first)
