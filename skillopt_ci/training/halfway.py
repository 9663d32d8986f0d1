"""The first half of a step alone: its candidate is left in flight, for many machines to measure."""

from collections.abc import Callable

from skillopt_ci.training.advance import Outcome, advance, prepare
from skillopt_ci.training.boundary import BoundaryOutcome
from skillopt_ci.training.epochs import boundary_due
from skillopt_ci.training.first_look import refuse_to_learn_nothing
from skillopt_ci.training.flight import BoundaryFlight, Flight, launch, work_out
from skillopt_ci.training.plan import plan_step, total_steps
from skillopt_ci.training.session import Session
from skillopt_ci.training.step import StepOutcome, train_step


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
