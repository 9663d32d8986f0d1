"""``skillopt-ci finish``: the end of a run."""

import asyncio
import json
import sys

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.table import print_rows
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.commits import summary_rows
from skillopt_ci.training.final_evaluation import FinishOutcome, finish
from skillopt_ci.training.trainer import patiently


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Validate the last skill, test the initial, best and last one, and sum the run up.

    One commit records it. Ends with 3 when nothing changed since the run was finished.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        with session.ledger.lock():
            started = session.clock()
            outcome = asyncio.run(patiently(session, lambda: finish(session, started)))
    if outcome is None:
        click.echo("Nothing left to do: the run is finished.", err=True)
        return ExitCode.NOTHING_TO_DO
    if settings.json:
        click.echo(json.dumps(summary_json(outcome)))
    print_finish(outcome, settings)
    return ExitCode.DONE


def summary_json(outcome: FinishOutcome) -> dict[str, object]:
    """The end of the run as one object: the summary, its commit, and the time of the whole run."""
    summary = outcome.summary.model_dump(mode="json")
    return {**summary, "commit": outcome.commit, "seconds": round(outcome.seconds, 3)}


def print_finish(outcome: FinishOutcome, settings: Globals) -> None:
    """Print the run's summary as a table, beside the JSON if that was asked for."""
    if settings.verbosity < 0:
        return
    summary = outcome.summary
    note = " (simulated models)" if summary.simulated else ""
    rows = summary_rows(summary, outcome.seconds)
    stream = sys.stderr if settings.json else sys.stdout
    print_rows(f"Run {summary.run}{note}", rows, stream, settings.environ)
