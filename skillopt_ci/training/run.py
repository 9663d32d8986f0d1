"""A run: steps and epoch ends until the epochs are over."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from skillopt_ci.errors import LostRace
from skillopt_ci.progress import Note
from skillopt_ci.training.advance import Outcome, advance
from skillopt_ci.training.foresight import working_ahead
from skillopt_ci.training.session import Session, equipped
from skillopt_ci.training.step import StepOutcome

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
