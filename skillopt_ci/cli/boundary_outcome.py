"""Tell what an epoch's end did: a table for people, one JSON object for programs."""

import json
import sys

import click

from skillopt_ci.cli.context import Globals
from skillopt_ci.cli.outcome import print_outcome
from skillopt_ci.cli.table import print_rows
from skillopt_ci.report.commits import boundary_gist
from skillopt_ci.report.terminal import (
    boundary_rows,
    boundary_rows_in_full,
    boundary_title,
    boundary_verdict,
)
from skillopt_ci.training.epoch_end import BoundaryOutcome
from skillopt_ci.training.trainer import Outcome


def tell_outcome(outcome: Outcome, settings: Globals) -> None:
    """Print a step or an epoch's end."""
    if isinstance(outcome, BoundaryOutcome):
        print_boundary(outcome, settings)
    else:
        print_outcome(outcome, settings)


def print_boundary(outcome: BoundaryOutcome, settings: Globals) -> None:
    """Print the JSON object on stdout if asked for, and the table where people look.

    ``-q`` leaves one line of the table, ``-v`` adds all that `show --epoch` tells.
    """
    record = outcome.record
    if settings.json:
        click.echo(json.dumps(boundary_json(outcome)))
    if settings.verbosity < 0:
        if not settings.json:
            verdict, gist = boundary_verdict(record), boundary_gist(record)
            click.echo(f"{boundary_title(record)}: {verdict}, {gist}")
        return
    stream = sys.stderr if settings.json else sys.stdout
    rows = boundary_rows(record, outcome.seconds)
    if settings.verbosity > 0:
        rows = boundary_rows_in_full(record)
    click.echo(err=True)
    print_rows(boundary_title(record), rows, stream, settings.environ)
    click.echo(file=stream)


def boundary_json(outcome: BoundaryOutcome) -> dict[str, object]:
    """The epoch's end as one flat object; keys are never removed or renamed in a major version."""
    record, usage = outcome.record, outcome.record.usage.usage()
    decision, slow, meta = record.decision, record.slow_update, record.meta_skill
    current = outcome.state.current.measurement.score
    return {
        "kind": "slow_update",
        "epoch": record.epoch,
        "step": record.step,
        "action": record.action,
        "score_before": current if decision is None else decision.score_before,
        "score_after": None if decision is None else decision.score_after,
        "commit": outcome.commit,
        "tasks": 0 if decision is None else decision.compared,
        "pairs": len(record.pairs),
        "guidance": None if slow is None else slow.action,
        "meta_skill": None if meta is None else meta.action,
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "seconds": round(outcome.seconds, 3),
        "simulated": record.simulated,
    }
