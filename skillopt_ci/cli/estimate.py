"""``skillopt-ci estimate``: what a run will call and cost."""

import json
import sys
from collections.abc import Iterator

import click

from skillopt_ci.cli.build import open_session
from skillopt_ci.cli.options import Globals, global_options
from skillopt_ci.cli.progress import build_observer
from skillopt_ci.cli.table import print_table
from skillopt_ci.config.config import Budget, Limits
from skillopt_ci.errors import ExitCode
from skillopt_ci.estimate.estimate import Estimate, Part, estimate
from skillopt_ci.model.types import Usage
from skillopt_ci.report.terminal import ESTIMATE_HEADINGS, estimate_json, part_rows
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.state import foresee_standing

#: What the tables go without on a narrow terminal, the least missed first.
_DISPENSABLE = ("tokens a call",)


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Say before a run what it will call and cost: its next step, an epoch, all that is left.

    Nothing is changed and no model asked. Counts follow from configuration and tasks: likely, and
    in brackets the least and the most that is possible. Sizes are those of this run's own calls,
    or of the texts as long as there are none. Prices that nobody knows are called unknown.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        standing = foresee_standing(session, session.ledger.sync())
        found = estimate(session, standing)
    warnings = [*over_budget(session.config.budget, found, standing.spent)]
    if settings.json:
        click.echo(json.dumps({**estimate_json(found), "warnings": warnings}))
        return ExitCode.DONE
    _print(found, warnings, session, settings)
    return ExitCode.DONE


def over_budget(budget: Budget, found: Estimate, spent: Usage) -> Iterator[str]:
    """Which budgets will likely end the work, when the run has ``spent`` so much already."""
    yield from _over("step", budget.step, found.step, Usage())
    yield from _over("run", budget.run, found.rest, spent)


def _over(scope: str, limits: Limits, part: Part, spent: Usage) -> Iterator[str]:
    dollars = part.cost_usd() or (0.0, 0.0, 0.0)
    needs = (
        ("calls", limits.calls, part.calls().likely + spent.calls),
        ("tokens", limits.tokens, part.tokens().likely + spent.tokens),
        ("cost_usd", limits.cost_usd, dollars[1] + (spent.cost_usd or 0.0)),
    )
    for name, limit, need in needs:
        if limit is not None and need > limit:
            about = f"{need:,}" if isinstance(need, int) else f"{need:,.2f}"
            yield f"budget.{scope}.{name} is {limit:,}, and about {about} will be needed"


def _print(found: Estimate, warnings: list[str], session: Session, settings: Globals) -> None:
    parts = (found.step, found.epoch, found.rest) if settings.verbosity >= 0 else (found.rest,)
    for part in parts:
        if part.stages:
            title = f"{part.name[0].upper()}{part.name[1:]}"
            rows = list(part_rows(part))
            print_table(ESTIMATE_HEADINGS, rows, sys.stdout, settings.environ, title, _DISPENSABLE)
        else:
            click.echo(f"{part.name[0].upper()}{part.name[1:]}: nothing to call")
        click.echo()
    for role, tariff in found.tariffs.items():
        click.echo(f"price of the {role}: {tariff.text}")
    for sentence in found.assumptions:
        click.echo(f"· {sentence}")
    if session.simulated:
        click.echo("· Simulated models cost nothing: tokens and money say little of real ones.")
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
