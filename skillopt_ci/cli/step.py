"""``skillopt-ci step``: exactly one training step."""

import asyncio

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.outcome import print_outcome
from skillopt_ci.errors import ExitCode
from skillopt_ci.training.step import train_step


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Do one training step, or go on with the one in flight.

    Ends with 0 when the step is recorded, merged and reverted alike, and with 3 when no step is
    left.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        with session.ledger.lock():
            outcome = asyncio.run(train_step(session, session.clock()))
    if outcome is None:
        click.echo("Nothing left to do: all epochs are trained.", err=True)
        return ExitCode.NOTHING_TO_DO
    print_outcome(outcome, settings)
    return ExitCode.DONE
