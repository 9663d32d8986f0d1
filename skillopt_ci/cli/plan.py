"""``skillopt-ci plan``, ``rollout`` and ``estimate``: what comes next, shared out and priced."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import click

from skillopt_ci.cli.build import opened
from skillopt_ci.cli.options import FILE, Globals, global_options, nothing_to_do, print_json
from skillopt_ci.cli.table import print_table
from skillopt_ci.config.config import Budget
from skillopt_ci.errors import ExitCode
from skillopt_ci.estimate.estimate import Estimate, estimate
from skillopt_ci.model.types import Usage
from skillopt_ci.report.terminal import ESTIMATE_HEADINGS, estimate_json, part_rows
from skillopt_ci.report.words import usage_text
from skillopt_ci.text import plural
from skillopt_ci.training.prefetch_plan import look_ahead
from skillopt_ci.training.shard import Shard, roll_out_shard, shards
from skillopt_ci.training.state import foresee_standing

_PURPOSES = MappingProxyType(
    {
        "measure": "to measure the current skill before step {0.step}",
        "rollout": "to roll out the batch of step {0.step}",
        "evaluation": "to measure the candidate of step {0.step}",
        "comparison": "to compare skills at the end of the epoch that step {0.step} ended",
    }
)


@click.command()
@click.option(
    "--shards",
    "most",
    type=click.IntRange(1, 256),
    default=4,
    show_default=True,
    help="Largest number of shards.",
)
@global_options
def plan_command(settings: Globals, most: int) -> ExitCode:
    """List the next attempts, split into shards for several machines.

    Calls no model and changes nothing. With --json, `matrix` is what a workflow's
    `strategy.matrix` takes by `fromJSON`: each job runs `rollout --shard`, and the last one
    `step --rollouts`. Ends with 3 when nothing is left to do.
    """
    with opened(settings) as run:
        outlook = look_ahead(run)
    parts = () if outlook is None else shards(outlook, most)
    names = [str(part) for part in parts]
    if settings.json:
        print_json(
            {
                "phase": "" if outlook is None else outlook.phase,
                "step": None if outlook is None else outlook.step,
                "attempts": 0 if outlook is None else len(outlook.attempts),
                "matrix": {"shard": names},
            }
        )
    if outlook is None:
        return nothing_to_do(
            "Nothing left to do: all epochs are trained, or there is nothing to learn at all."
        )
    if not settings.json:
        purpose = _PURPOSES[outlook.phase].format(outlook)
        count = plural(len(outlook.attempts), "attempt")
        click.echo(f"{count} {purpose}, in {plural(len(parts), 'shard')}: {', '.join(names)}")
    return ExitCode.DONE


@click.command()
@click.option("--shard", required=True, metavar="I/N", help="The shard to do, as `plan` names it.")
@click.option(
    "--output",
    "-O",
    type=FILE,
    default=Path("answers.jsonl"),
    show_default=True,
    metavar="FILE",
    help="Where to write the answers.",
)
@global_options
def rollout_command(settings: Globals, shard: str, output: Path) -> ExitCode:
    """Roll out one shard of the attempts that `plan` lists, and write the answers to a file.

    Nothing is recorded: `step --rollouts FILE` takes the answers over and does the step. Whatever
    ends this command, the file has all that was answered. Each of N shards has an N-th of the
    budgets. Give `step` only files from jobs that you trust as much as `step` itself: an answer
    counts as what the model said.
    """
    part = Shard.parse(shard)
    with opened(settings) as run:
        outlook = look_ahead(run)
        if outlook is None:
            return nothing_to_do("Nothing left to do: all epochs are trained.")
        done = asyncio.run(roll_out_shard(run, outlook, part, settings.cwd / output))
    if settings.json:
        facts = {"attempts": done.attempts, "errors": done.errors, "answers": done.answers}
        used = {"calls": done.usage.calls, "tokens": done.usage.tokens}
        cost = {"cost_usd": done.usage.cost_usd}
        print_json({"phase": outlook.phase, "shard": shard, **facts, **used, **cost})
    else:
        errors = plural(done.errors, "attempt")
        missing = f"; {errors} not measured, which the step tries again" if done.errors else ""
        click.echo(
            f"{plural(done.attempts, 'attempt')}, {plural(done.answers, 'answer')} in {output}"
            f"{missing}. Used {usage_text(done.usage)}."
        )
    return ExitCode.DONE


@click.command()
@global_options
def estimate_command(settings: Globals) -> ExitCode:
    """Estimate the calls and the cost of the next step, an epoch and the rest of the run.

    Calls no model and changes nothing. Counts follow from configuration and tasks: the likely
    number, then the least and the most possible in brackets. Sizes are measured on this run's own
    calls, or on the texts as long as there are none. You get a warning if the estimate exceeds your
    `budget`; prices that are not known are shown as unknown.
    """
    with opened(settings) as run:
        standing = foresee_standing(run, run.ledger.sync())
        found = estimate(run, standing)
    warnings = [*over_budget(run.config.budget, found, standing.spent)]
    if settings.json:
        print_json({**estimate_json(found), "warnings": warnings})
        return ExitCode.DONE
    parts = (found.step, found.epoch, found.rest) if settings.verbosity >= 0 else (found.rest,)
    for part in parts:
        title = f"{part.name[0].upper()}{part.name[1:]}"
        if part.stages:
            # a narrow terminal goes without the sizes
            rows, spare = list(part_rows(part)), ("tokens a call",)
            print_table(settings, ESTIMATE_HEADINGS, rows, title, spare)
        else:
            click.echo(f"{title}: nothing to call")
        click.echo()
    for role, tariff in found.tariffs.items():
        click.echo(f"price of the {role}: {tariff.text}")
    for sentence in found.assumptions:
        click.echo(f"· {sentence}")
    if run.simulated:
        click.echo("· Simulated models cost nothing: tokens and money say little of real ones.")
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return ExitCode.DONE


def over_budget(budget: Budget, found: Estimate, spent: Usage) -> Iterator[str]:
    """Which budgets will likely end the work, when the run has ``spent`` so much already."""
    scopes = (
        ("step", budget.step, found.step, Usage()),
        ("run", budget.run, found.rest, spent),
    )
    for scope, limits, part, used in scopes:
        dollars = part.cost_usd() or (0.0, 0.0, 0.0)
        needs = (
            ("calls", limits.calls, part.calls().likely + used.calls),
            ("tokens", limits.tokens, part.tokens().likely + used.tokens),
            ("cost_usd", limits.cost_usd, dollars[1] + (used.cost_usd or 0.0)),
        )
        for name, limit, need in needs:
            if limit is not None and need > limit:
                about = f"{need:,}" if isinstance(need, int) else f"{need:,.2f}"
                yield f"budget.{scope}.{name} is {limit:,}, and about {about} will be needed"
