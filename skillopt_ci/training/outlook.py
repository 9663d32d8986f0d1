"""Outlook: the attempts at tasks that the next piece of work begins with, known in advance.

Nothing is published and no model is asked: this is what many machines look at to share them out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import Order
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.attempts import next_rounds, round_of
from skillopt_ci.training.epochs import boundary_due
from skillopt_ci.training.evidence import attempts_so_far
from skillopt_ci.training.first_look import learns_nothing
from skillopt_ci.training.flight import BoundaryFlight, Flight, in_flight
from skillopt_ci.training.footing import Footing, find_footing
from skillopt_ci.training.judge import known_measurement
from skillopt_ci.training.longitudinal import earlier_skill, sampling_seed
from skillopt_ci.training.meeting import planned_tasks
from skillopt_ci.training.pairs import sampling_order
from skillopt_ci.training.plan import plan_step, total_steps
from skillopt_ci.training.session import Session
from skillopt_ci.training.settle import as_settled, best_text, unsettled
from skillopt_ci.training.slow_update import first_epoch
from skillopt_ci.training.standing import Settled, Standing, foresee_standing

#: What attempts are for: the current skill's score, a step's batches, the verdict on a candidate
#: in flight, or the comparison of two epochs' skills.
Phase = Literal["measure", "rollout", "evaluation", "comparison"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is done next in a run, for step ``step``; ``attempts`` may be empty.

    ``spent`` is what the run has consumed so far.
    """

    phase: Phase
    step: int
    attempts: tuple[Order, ...]
    spent: Usage


def look_ahead(session: Session) -> Outlook | None:
    """Say what is next; None if nothing is left.

    Raises what finding the ground raises; see :func:`~.standing.find_standing`.
    """
    position = session.ledger.sync()
    standing = foresee_standing(session, position)
    if standing.state is None or unsettled(session, standing):
        step = 1 if standing.state is None else standing.state.step + 1
        return Outlook("measure", step, tuple(_to_measure(session, standing)), standing.spent)
    settled = as_settled(standing, standing.state)
    flight = None
    if position.candidate is not None:
        flight = in_flight(session, settled, position.candidate)
    if flight is not None:
        return _evaluation(session, settled, flight)
    return look_beyond(session, settled, find_footing(session, settled))


def look_beyond(session: Session, standing: Settled, footing: Footing) -> Outlook | None:
    """What is next on a ground without a candidate in flight; None if nothing is left.

    ``footing`` is that of the next batch if no end of an epoch comes before it.
    """
    epoch = boundary_before_batch(session, standing)
    if epoch is None:
        return _rollout(session, standing, footing)
    if epoch > 1:
        return _comparison(session, standing, epoch)
    # The first end asks no model, and its place for guidance makes another text of the skill.
    skill, _ = first_epoch(session, standing)
    if session.config.train.staleness:
        footing = Footing(standing.skill, attempts_so_far(session, standing))
    elif skill != standing.skill:
        footing = Footing(skill, ())
    nothing = Outlook("comparison", standing.state.step, (), standing.spent)
    return _rollout(session, standing, footing) or nothing


def boundary_before_batch(session: Session, standing: Settled) -> int | None:
    """The epoch whose end comes before the next batch, if one does."""
    inline = session.config.schedule.slow_update == "inline"
    return boundary_due(session, standing) if inline else None


def batch_orders(session: Session, footing: Footing, step: int) -> tuple[Order, ...]:
    """The attempts at the tasks of step ``step`` on ``footing``."""
    plan = plan_step(session.splits.train, session.config.train, step, session.first_seed)
    tasks = {task.id: task for batch in plan.batches for task in batch.tasks}
    each = session.config.rollout.attempts
    return tuple(
        Order(one.task, footing.skill, "rollout", number)
        for one in next_rounds(tasks.values(), footing.made, each)
        for number in round_of(one.number, each)
    )


def _to_measure(session: Session, standing: Standing) -> Iterator[Order]:
    attempts = session.config.rollout.attempts
    yield from _attempts(session.selection, standing.skill, "selection", attempts)
    state, best = standing.state, best_text(session, standing)
    if state is not None and best is not None and state.measured_under != session.measured_under:
        yield from _attempts(session.selection, best, "selection", attempts)


def _evaluation(session: Session, standing: Settled, flight: Flight | BoundaryFlight) -> Outlook:
    evaluation, each = session.config.evaluation, session.config.rollout.attempts
    planned = set(planned_tasks(session, standing, evaluation))
    known = known_measurement(session, standing, flight.skill)
    if known is not None:
        planned -= {*known[1].tasks, *known[1].errors}
    tasks = [task for task in session.selection if task.id in planned]
    attempts = _attempts(tasks, flight.skill, "selection", each)
    return Outlook("evaluation", flight.record.step, tuple(attempts), standing.spent)


def earlier_side(session: Session, standing: Settled, epoch: int) -> tuple[Order, ...]:
    """The attempts of a comparison that are made under the skill of the epoch before."""
    return _side(session, earlier_skill(session, standing, epoch), epoch)


def _comparison(session: Session, standing: Settled, epoch: int) -> Outlook:
    both = (*earlier_side(session, standing, epoch), *_side(session, standing.skill, epoch))
    return Outlook("comparison", standing.state.step, both, standing.spent)


def _side(session: Session, skill: str, epoch: int) -> tuple[Order, ...]:
    size = session.config.optimizer.slow_update_samples
    drawn = sampling_order(session.splits.train, sampling_seed(session, epoch))[:size]
    return tuple(_attempts(drawn, skill, "slow_rollout", session.config.rollout.attempts))


def _rollout(session: Session, standing: Settled, footing: Footing) -> Outlook | None:
    step = standing.state.step + 1
    over = step > total_steps(len(session.splits.train), session.config.train)
    if over or learns_nothing(session, standing):
        return None
    return Outlook("rollout", step, batch_orders(session, footing, step), standing.spent)


def _attempts(tasks: Sequence[Task], skill: str, stage: str, attempts: int) -> Iterator[Order]:
    return (Order(task, skill, stage, number) for task in tasks for number in range(attempts))
