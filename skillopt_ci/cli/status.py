"""``skillopt-ci status``: where training stands."""

import json
import sys

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.cli.table import print_rows
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.status import status_json, status_rows


@click.command()
@click.option("--run", metavar="NAME", help="Run to read, where no configuration names it.")
@global_options
def command(settings: Globals, run: str | None) -> ExitCode:
    """Say where training stands, read from git alone."""
    reader = open_reader(settings, run)
    if settings.json:
        click.echo(json.dumps(status_json(reader.state, reader.history, reader.commit)))
        return ExitCode.DONE
    note = " (simulated models)" if reader.state.simulated else ""
    rows = status_rows(reader.state, reader.history, reader.commit)
    print_rows(f"Run {reader.state.run}{note}", rows, sys.stdout, settings.environ)
    return ExitCode.DONE
