"""``skillopt-ci log``: the training log."""

import sys

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.reader import RunReader, open_reader
from skillopt_ci.cli.table import print_table
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.terminal import LOG_HEADINGS, log_row

#: Events listed unless somebody asks for more, or another number.
_NEWEST = 40
#: What the table goes without on a narrow terminal, the least missed first.
_DISPENSABLE = ("words", "edits", "epoch")


@click.command()
@click.option("-n", "--number", type=click.IntRange(min=1), help="Only the newest N events.")
@click.option("--all", "whole", is_flag=True, help=f"All events, not only the newest {_NEWEST}.")
@global_options
def command(settings: Globals, number: int | None, whole: bool) -> ExitCode:
    """List what happened in the run, oldest first, read from git alone.

    Of a long history the newest events are listed, with --json all of them.
    """
    if whole and number is not None:
        raise click.UsageError("name either a --number or --all")
    reader = open_reader(settings)
    newest = len(reader.history) if whole or settings.json else _NEWEST
    entries = reader.history[-(number or newest) :]
    if settings.json:
        for entry in entries:
            click.echo(entry.model_dump_json())
        return ExitCode.DONE
    rows, title = [log_row(entry) for entry in entries], _title(reader, len(entries))
    print_table(LOG_HEADINGS, rows, sys.stdout, settings.environ, title, _DISPENSABLE)
    return ExitCode.DONE


def _title(reader: RunReader, shown: int) -> str:
    note = " (simulated models)" if reader.state.simulated else ""
    count = len(reader.history)
    part = f", newest {shown} of {count} events (see --all)" if shown < count else ""
    return f"Run {reader.state.run}{note}{part}"
