"""``skillopt-ci run``: the steps that are left."""

import asyncio

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.outcome import print_outcome
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.figures import plural
from skillopt_ci.training.run import train


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Do the training steps that are left, until the epochs, a budget or a signal ends it.

    Whatever ends it, the next run goes on from there. Ends with 3 when there was nothing to do.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        with session.ledger.lock():
            steps = asyncio.run(train(session, lambda outcome: print_outcome(outcome, settings)))
    if steps == 0:
        click.echo("Nothing left to do: all epochs are trained.", err=True)
        return ExitCode.NOTHING_TO_DO
    if settings.verbosity >= 0:
        click.echo(f"All epochs are trained: {plural(steps, 'step')} in this run.", err=True)
    return ExitCode.DONE
