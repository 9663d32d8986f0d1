"""``skillopt-ci run``: the steps that are left."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.boundary_outcome import tell_outcome
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.finish import print_finish
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.notes import notes_option, with_notes
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.text import plural
from skillopt_ci.training.epoch_end import BoundaryOutcome
from skillopt_ci.training.final_evaluation import FinishOutcome, finish
from skillopt_ci.training.run_context import Session, equipped
from skillopt_ci.training.trainer import Outcome, patiently, train


@click.command()
@notes_option
@global_options
def command(settings: Globals, notes: Path | None) -> ExitCode:
    """Do the training steps that are left, until the epochs, a budget or a signal ends it.

    After the last one the run is finished, as by `finish`, unless evaluation.eval_test is false.
    Whatever ends it, the next run goes on from there. Ends with 3 when there was nothing to do.
    """
    with build_observer(settings) as observer:
        session = with_notes(open_session(settings, observer), notes, settings)
        with session.ledger.lock():
            outcomes, finished = asyncio.run(_train(session, settings))
    if finished is not None:
        print_finish(finished, settings)
    elif not outcomes:
        click.echo("Nothing left to do: all epochs are trained.", err=True)
        return ExitCode.NOTHING_TO_DO
    if settings.verbosity >= 0:
        click.echo(f"All epochs are trained: {_counted(outcomes)} in this run.", err=True)
    return ExitCode.DONE


async def _train(session: Session, settings: Globals) -> tuple[list[Outcome], FinishOutcome | None]:
    started, outcomes = session.clock(), list[Outcome]()

    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        tell_outcome(outcome, settings)

    async with equipped(session) as ready:
        await train(ready, tell)
        if not session.config.evaluation.eval_test:
            return outcomes, None
        return outcomes, await patiently(ready, lambda: finish(ready, started))


def _counted(outcomes: Sequence[Outcome]) -> str:
    """``3 steps and 1 end of an epoch``."""
    ends = sum(isinstance(outcome, BoundaryOutcome) for outcome in outcomes)
    steps = plural(len(outcomes) - ends, "step")
    if not ends:
        return steps
    return f"{steps} and {ends} {'end of an epoch' if ends == 1 else 'ends of epochs'}"
