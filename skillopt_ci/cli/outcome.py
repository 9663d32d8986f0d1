"""Tell what a step did: a table for people, one JSON object for programs."""

import json
import sys

import click
from rich.table import Table
from rich.text import Text

from skillopt_ci.cli.console import build_console
from skillopt_ci.cli.context import Globals
from skillopt_ci.report.commit import applied_edits
from skillopt_ci.report.step_table import step_rows
from skillopt_ci.training.step import StepOutcome


def print_outcome(outcome: StepOutcome, settings: Globals) -> None:
    """Print the step's JSON object on stdout if asked for, and its table where people look."""
    if settings.json:
        click.echo(json.dumps(as_json(outcome)))
    if settings.verbosity >= 0:
        _print_table(outcome, settings)


def as_json(outcome: StepOutcome) -> dict[str, object]:
    """The step as one flat object; keys are never removed or renamed within a major version."""
    record, decision, usage = outcome.record, outcome.decision, outcome.record.usage.usage()
    return {
        "step": record.step,
        "epoch": record.epoch,
        "action": decision.action,
        "score_before": decision.score_before,
        "score_after": decision.score_after,
        "commit": outcome.commit,
        "tasks": decision.compared,
        "edits": len(applied_edits(record.proposal)),
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "seconds": round(outcome.seconds, 3),
        "simulated": record.simulated,
    }


def _print_table(outcome: StepOutcome, settings: Globals) -> None:

    record = outcome.record
    stream = sys.stderr if settings.json else sys.stdout
    note = " (simulated models)" if record.simulated else ""
    table = Table(
        title=f"Step {record.step} of {outcome.total}, epoch {record.epoch}{note}",
        title_justify="left",
        show_header=False,
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in step_rows(record, outcome.decision, outcome.state, outcome.seconds):
        table.add_row(label, Text(value))
    console = build_console(stream, settings.environ)
    console.print(table)
    console.print()
