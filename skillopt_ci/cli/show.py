"""``skillopt-ci show``: the evidence of one step."""

import sys

import click

from skillopt_ci.cli.console import wants_colour
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.harmless import harmless
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.cli.table import print_rows
from skillopt_ci.errors import ExitCode
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.report.step_page import step_rows_in_full

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("step", type=click.IntRange(min=1))
@click.option("--run", metavar="NAME", help="Run to read, where no configuration names it.")
@global_options
def command(settings: Globals, step: int, run: str | None) -> ExitCode:
    """Show one step: rollouts, edits as a diff, flips and the gate's arithmetic, from git alone."""
    record = open_reader(settings, run).step(step)
    if settings.json:
        click.echo(record.model_dump_json())
    else:
        _print(record, settings)
    return ExitCode.DONE


def _print(record: StepRecord, settings: Globals) -> None:
    note = " (simulated models)" if record.simulated else ""
    title = f"Step {record.step}, epoch {record.epoch}{note}"
    print_rows(title, step_rows_in_full(record), sys.stdout, settings.environ)
    if record.proposal.diff:
        click.echo()
        _print_diff(record.proposal.diff, colour=wants_colour(sys.stdout, settings.environ))


def _print_diff(diff: str, *, colour: bool) -> None:
    for line in diff.splitlines():
        shown = harmless(line)
        click.echo(click.style(shown, fg=_COLOURS.get(line[:1])) if colour else shown)
