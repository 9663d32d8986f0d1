"""Tell what a step did: a table for people, one JSON object for programs."""

import json
import sys
from typing import TextIO

import click

from skillopt_ci.cli.context import Globals
from skillopt_ci.cli.table import print_rows
from skillopt_ci.report.commits import arrow, change_count
from skillopt_ci.report.terminal import step_rows, step_rows_in_full
from skillopt_ci.report.text import verdict
from skillopt_ci.training.step import StepOutcome


def print_outcome(outcome: StepOutcome, settings: Globals) -> None:
    """Print the step's JSON object on stdout if asked for, and its table where people look.

    ``-q`` leaves one line of the table, ``-v`` adds all that `show` tells.
    """
    if settings.json:
        click.echo(json.dumps(outcome_json(outcome)))
    if settings.verbosity >= 0:
        _print_table(outcome, settings, sys.stderr if settings.json else sys.stdout)
    elif not settings.json:
        click.echo(summary(outcome))


def outcome_json(outcome: StepOutcome) -> dict[str, object]:
    """The step as one flat object; keys are never removed or renamed within a major version."""
    record, decision, usage = outcome.record, outcome.decision, outcome.record.usage.usage()
    return {
        "kind": "step",
        "step": record.step,
        "epoch": record.epoch,
        "action": decision.action,
        "score_before": decision.score_before,
        "score_after": decision.score_after,
        "commit": outcome.commit,
        "tasks": decision.compared,
        "edits": change_count(record.proposal),
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "seconds": round(outcome.seconds, 3),
        "simulated": record.simulated,
    }


def summary(outcome: StepOutcome) -> str:
    """The step in one line."""
    decision = outcome.decision
    return f"{_title(outcome)}: {verdict(decision.action, decision.score_after)}, {arrow(decision)}"


def _title(outcome: StepOutcome) -> str:
    record = outcome.record
    note = " (simulated models)" if record.simulated else ""
    return f"Step {record.step} of {outcome.total}, epoch {record.epoch}{note}"


def _print_table(outcome: StepOutcome, settings: Globals, stream: TextIO) -> None:
    record = outcome.record
    rows = (
        step_rows_in_full(record)
        if settings.verbosity > 0
        else step_rows(record, outcome.decision, outcome.state, outcome.seconds)
    )
    click.echo(err=True)
    print_rows(_title(outcome), rows, stream, settings.environ)
    click.echo(file=stream)
