"""``skillopt-ci slow-update``: the end of an epoch, if one is due."""

import asyncio

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.boundary_outcome import print_boundary
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.errors import ExitCode
from skillopt_ci.training.trainer import cross_boundary


@click.command("slow-update")
@global_options
def command(settings: Globals) -> ExitCode:
    """Do the end of an epoch if it is due: new guidance in the skill, notes for the optimizer.

    A scheduler can call it blindly: it ends with 0 when an epoch's end is recorded, merged and
    reverted alike, and with 3 when none is due. `step` and `run` do the same by themselves unless
    `schedule.slow_update` is `scheduled`.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        with session.ledger.lock():
            outcome = asyncio.run(cross_boundary(session, session.clock()))
    if outcome is None:
        click.echo("Nothing to do: no epoch's end is due.", err=True)
        return ExitCode.NOTHING_TO_DO
    print_boundary(outcome, settings)
    return ExitCode.DONE
