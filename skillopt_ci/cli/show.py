"""``skillopt-ci show``: the evidence of one step."""

import sys

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.harmless import harmless
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.cli.table import print_rows
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.step_page import edit_lines, step_rows_in_full


@click.command()
@click.argument("step", type=click.IntRange(min=1))
@click.option("--run", metavar="NAME", help="Run to read, where no configuration names it.")
@global_options
def command(settings: Globals, step: int, run: str | None) -> ExitCode:
    """Show one step: rollouts, edits as a diff, flips and the gate's arithmetic, from git alone."""

    reader = open_reader(settings, run)
    record = reader.step(step)
    if settings.json:
        click.echo(record.model_dump_json())
        return ExitCode.DONE
    note = " (simulated models)" if record.simulated else ""
    title = f"Step {record.step}, epoch {record.epoch}{note}"
    print_rows(title, step_rows_in_full(record), sys.stdout, settings.environ)
    click.echo()
    for line in edit_lines(record.proposal):
        click.echo(harmless(line))
    return ExitCode.DONE
