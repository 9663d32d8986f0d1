"""``skillopt-ci log``: the training log."""

import sys

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.cli.table import print_table
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.training_log import HEADINGS, log_row


@click.command()
@click.option("-n", "--number", type=click.IntRange(min=1), help="Only the last N events.")
@global_options
def command(settings: Globals, number: int | None) -> ExitCode:
    """List what happened in the run, oldest first, read from git alone."""
    reader = open_reader(settings)
    entries = reader.history[-number:] if number else reader.history
    if settings.json:
        for entry in entries:
            click.echo(entry.model_dump_json())
        return ExitCode.DONE
    print_table(HEADINGS, [log_row(entry) for entry in entries], sys.stdout, settings.environ)
    return ExitCode.DONE
