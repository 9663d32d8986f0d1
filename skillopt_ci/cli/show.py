"""``skillopt-ci show``: the evidence of one step."""

import sys

import click

from skillopt_ci.cli.console import wants_colour
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.reader import open_reader
from skillopt_ci.cli.table import print_rows
from skillopt_ci.errors import ExitCode
from skillopt_ci.ledger.records import BoundaryRecord, StepRecord
from skillopt_ci.report.terminal import boundary_rows_in_full, boundary_title, step_rows_in_full
from skillopt_ci.sanitize import harmless

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("step", type=click.IntRange(min=1), required=False)
@click.option("--epoch", type=click.IntRange(min=1), help="Show the end of this epoch instead.")
@global_options
def command(settings: Globals, step: int | None, epoch: int | None) -> ExitCode:
    """Show one step: rollouts, edits as a diff, flips and the gate's arithmetic, from git alone.

    With --epoch, the end of that epoch: the comparison, the guidance, the notes for the optimizer.
    """
    if step is not None and epoch is None:
        _show_step(open_reader(settings).step(step), settings)
    elif epoch is not None and step is None:
        _show_boundary(open_reader(settings).boundary(epoch), settings)
    else:
        raise click.UsageError("name either a STEP or an --epoch")
    return ExitCode.DONE


def _show_boundary(record: BoundaryRecord, settings: Globals) -> None:
    if settings.json:
        click.echo(record.model_dump_json())
    else:
        rows = boundary_rows_in_full(record)
        print_rows(boundary_title(record), rows, sys.stdout, settings.environ)


def _show_step(record: StepRecord, settings: Globals) -> None:
    if settings.json:
        click.echo(record.model_dump_json())
        return
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
