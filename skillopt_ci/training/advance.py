"""Advance: the next durable piece of work of a run, whatever that is.

This is where to start reading: look where the branches are, see that the current skill has a valid
score, take up what is in flight, and do either the end of an epoch or a training step.
"""

import asyncio
from dataclasses import dataclass

from skillopt_ci.ledger.ledger import Position
from skillopt_ci.progress import Note
from skillopt_ci.training.boundary import BoundaryOutcome, cross
from skillopt_ci.training.epochs import boundary_due
from skillopt_ci.training.first_look import refuse_to_learn_nothing
from skillopt_ci.training.flight import BoundaryFlight, Flight, resume
from skillopt_ci.training.foresight import foresee_first_batch
from skillopt_ci.training.plan import total_steps
from skillopt_ci.training.session import Session
from skillopt_ci.training.settle import settle
from skillopt_ci.training.standing import Settled, Standing, find_standing
from skillopt_ci.training.step import StepOutcome, train_step

Outcome = StepOutcome | BoundaryOutcome


@dataclass(frozen=True, slots=True)
class Ready:
    """A settled ground, and what an earlier run left in flight on it."""

    standing: Settled
    flight: Flight | BoundaryFlight | None


async def advance(session: Session, run_started: float) -> Outcome | None:
    """Do exactly one piece of work, the end of an epoch before the next step; None if none is left.

    With `schedule.slow_update: scheduled` the end of an epoch is left to :func:`cross_boundary`,
    unless it is in flight already. ``run_started`` is the clock's reading when the command began.
    Raises :class:`~skillopt_ci.errors.NothingToLearn` if the first step could change nothing.
    """
    ready = await prepare(session, run_started)
    inline = session.config.schedule.slow_update == "inline"
    if inline or isinstance(ready.flight, BoundaryFlight):
        crossed = await _cross(session, ready, run_started)
        if crossed is not None:
            return crossed
    total = total_steps(len(session.splits.train), session.config.train)
    if ready.standing.state.step >= total:
        return None
    flight = ready.flight if isinstance(ready.flight, Flight) else None
    if flight is None:
        refuse_to_learn_nothing(session, ready.standing)
    return await train_step(session, ready.standing, flight, total, run_started)


async def cross_boundary(session: Session, run_started: float) -> BoundaryOutcome | None:
    """Do the end of an epoch if it is due; None if none is, or a step is in flight."""
    return await _cross(session, await prepare(session, run_started), run_started)


async def prepare(session: Session, run_started: float) -> Ready:
    """Find the ground, settle it, and read what is in flight."""
    # in a thread: answers to what is made ahead come in meanwhile
    position, standing = await asyncio.to_thread(_found, session)
    foresee_first_batch(session, standing)
    settled = await settle(session, standing, run_started)
    if position.candidate is None:
        return Ready(settled, None)
    return Ready(*resume(session, settled, position.candidate))


def _found(session: Session) -> tuple[Position, Standing]:
    position = session.ledger.sync()
    session.ledger.preflight(position)
    return position, find_standing(session, position)


async def _cross(session: Session, ready: Ready, run_started: float) -> BoundaryOutcome | None:
    flight = ready.flight
    epoch = boundary_due(session, ready.standing)
    if isinstance(flight, Flight):
        if epoch is not None:
            session.observer(Note(f"The end of epoch {epoch} waits for the step in flight."))
        return None
    if flight is not None:
        epoch = flight.record.epoch
    if epoch is None:
        return None
    return await cross(session, ready.standing, epoch, flight, run_started)
