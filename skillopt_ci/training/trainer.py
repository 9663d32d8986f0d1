"""Advance: the next durable piece of work of a run, whatever that is.

This is where to start reading: look where the branches are, see that the current skill has a valid
score, take up what is in flight, and do either the end of an epoch or a training step.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from skillopt_ci.config.config import Config
from skillopt_ci.errors import LostRace
from skillopt_ci.ledger.ledger import Position
from skillopt_ci.ledger.records import HistoryEntry, State
from skillopt_ci.progress import Note
from skillopt_ci.training.baseline import no_score_is_higher, refuse_to_learn_nothing, settle
from skillopt_ci.training.epoch_end import BoundaryOutcome, cross
from skillopt_ci.training.plan import boundary_due, completed_epoch, plan_step, total_steps
from skillopt_ci.training.prefetch_plan import foresee_first_batch, working_ahead
from skillopt_ci.training.resume import BoundaryFlight, Flight, launch, resume, work_out
from skillopt_ci.training.run_context import Session, equipped
from skillopt_ci.training.state import Settled, Standing, find_standing
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


# A run: steps and epoch ends until the epochs are over.

Result = TypeVar("Result")

#: Races that may be lost one after another before the run gives up.
PATIENCE = 3


async def train(session: Session, told: Callable[[Outcome], None]) -> int:
    """Do all the work that is left, tell each outcome, and return how many there were.

    When somebody else moved the skills branch under a step, the run reloads and goes on; answers
    that were paid for are reused.
    """
    run_started, done = session.clock(), 0
    async with working_ahead(session) as ready:
        while True:
            outcome = await patiently(ready, lambda: advance(ready, run_started))
            if outcome is None:
                return done
            done += 1
            told(outcome)


async def train_once(session: Session, told: Callable[[Outcome], None]) -> int:
    """Do the next step, and before it the end of an epoch that is due; tell each outcome.

    Returns how many there were: 0 if nothing was left. A lost race is raised.
    """
    run_started, done = session.clock(), 0
    async with equipped(session) as ready:
        while (outcome := await advance(ready, run_started)) is not None:
            done += 1
            told(outcome)
            if isinstance(outcome, StepOutcome):
                break
    return done


async def patiently(session: Session, work: Callable[[], Awaitable[Result]]) -> Result:
    """Return what ``work`` does, begun again after a lost race, :data:`PATIENCE` times at most."""
    for _ in range(PATIENCE):
        try:
            return await work()
        except LostRace as race:
            session.observer(Note(f"{race.message} Reloading.", level="warning"))
    return await work()


# The first half of a step alone: its candidate is left in flight, for many machines to measure.


async def train_until_candidate(
    session: Session, told: Callable[[Outcome], None]
) -> Flight | BoundaryFlight | StepOutcome | None:
    """Do the next step up to its candidate, and return that; None if nothing is left.

    The end of an epoch that is due before it is done wholly, and so is a step that comes to no
    candidate: these are told. Raises what a step raises.
    """
    run_started = session.clock()
    while isinstance(work := await _halfway(session, run_started), BoundaryOutcome):
        told(work)
    if isinstance(work, StepOutcome):
        told(work)
    return work


async def _halfway(
    session: Session, run_started: float
) -> Flight | BoundaryFlight | Outcome | None:
    ready = await prepare(session, run_started)
    if ready.flight is not None:
        return ready.flight
    standing, train = ready.standing, session.config.train
    if session.config.schedule.slow_update == "inline" and boundary_due(session, standing):
        return await advance(session, run_started)
    step, total = standing.state.step + 1, total_steps(len(session.splits.train), train)
    if step > total:
        return None
    refuse_to_learn_nothing(session, standing)
    plan = plan_step(session.splits.train, train, step, session.first_seed)
    meter = session.meter(run_started, standing.spent)
    flight = await work_out(session, standing, plan, total, meter)
    flight = await launch(session, standing, flight)
    if flight.commit is not None:
        return flight
    return await train_step(session, standing, flight, total, run_started)


# Upcoming: what the next command will do, told from the state of a run and its configuration.

#: A step, the end of an epoch (with the step after it, if one is left), the end of the run, or
#: nothing: because all is done, or because the skill solves everything already.
Work = Literal["step", "epoch_end", "finish", "done", "nothing_to_learn"]


@dataclass(frozen=True, slots=True)
class Upcoming:
    """What is next in a run of ``total`` steps.

    ``step`` is the step to come, None if none is left; ``epoch_end`` the epoch whose end is due,
    None if none is; ``scheduled``: that end waits for `slow-update`, `step` and `run` pass it by.
    """

    work: Work
    total: int
    step: int | None = None
    epoch_end: int | None = None
    scheduled: bool = False


def upcoming(config: Config, n_train: int, state: State, last: HistoryEntry | None) -> Upcoming:
    """Say what comes next where nothing is in flight; ``last`` is the newest event of the run.

    Raises :class:`~skillopt_ci.errors.ConfigError` as :func:`~.plan.total_steps` does.
    """
    total = total_steps(n_train, config.train)
    step = state.step + 1 if state.step < total else None
    due = completed_epoch(config, n_train, state)
    scheduled = config.schedule.slow_update == "scheduled"
    if due is not None and not (scheduled and step is not None):
        return Upcoming("epoch_end", total, step, due, scheduled)
    if step is not None:
        stuck = state.step == 0 and no_score_is_higher(config, state.current)
        return Upcoming("nothing_to_learn" if stuck else "step", total, step, due, scheduled)
    finished = last is not None and last.kind == "finish"
    work: Work = "finish" if config.evaluation.eval_test and not finished else "done"
    return Upcoming(work, total)
