"""A run: steps until the epochs are over."""

from collections.abc import Callable

from skillopt_ci.errors import LostRace
from skillopt_ci.progress import Note
from skillopt_ci.training.session import Session
from skillopt_ci.training.step import StepOutcome, train_step

#: Races that may be lost one after another before the run gives up.
PATIENCE = 3


async def train(session: Session, on_step: Callable[[StepOutcome], None]) -> int:
    """Do every step that is left; return how many that were.

    When somebody else moved the skills branch under a step, the run reloads and goes on, at most
    :data:`PATIENCE` times in a row; answers that were paid for are reused.
    """
    run_started, steps, lost = session.clock(), 0, 0
    while True:
        try:
            outcome = await train_step(session, run_started)
        except LostRace as race:
            lost += 1
            if lost > PATIENCE:
                raise
            session.observer(Note(f"{race.message} Reloading.", level="warning"))
            continue
        if outcome is None:
            return steps
        steps, lost = steps + 1, 0
        on_step(outcome)
