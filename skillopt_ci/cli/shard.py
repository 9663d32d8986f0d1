"""``skillopt-ci plan``: what there is to share out over many machines."""

import asyncio
import json
from pathlib import Path

import click

from skillopt_ci.cli.build import open_session
from skillopt_ci.cli.options import Globals, global_options
from skillopt_ci.cli.progress import build_observer
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.words import usage_text
from skillopt_ci.text import plural
from skillopt_ci.training.prefetch_plan import Outlook, look_ahead
from skillopt_ci.training.shard import Shard, ShardOutcome, roll_out_shard, shards

_PURPOSES = {
    "measure": "to measure the current skill before step {0.step}",
    "rollout": "to roll out the batch of step {0.step}",
    "evaluation": "to measure the candidate of step {0.step}",
    "comparison": "to compare skills at the end of the epoch that step {0.step} ended",
}


@click.command()
@click.option(
    "--shards",
    "most",
    type=click.IntRange(1, 256),
    default=4,
    show_default=True,
    help="Most machines to share the attempts out over.",
)
@global_options
def plan_command(settings: Globals, most: int) -> ExitCode:
    """Say which attempts at tasks come next, and share them out over machines.

    Nothing is changed and no model asked. With --json, `matrix` is what a workflow's
    `strategy.matrix` takes by `fromJSON`: each job runs `rollout --shard`, and the last one
    `step --rollouts`. Ends with 3 when nothing is left to do.
    """
    with build_observer(settings) as observer:
        outlook = look_ahead(open_session(settings, observer))
    parts = () if outlook is None else shards(outlook, most)
    if settings.json:
        click.echo(json.dumps(_as_json(outlook, parts)))
    elif outlook is not None:
        click.echo(_plan_sentence(outlook, parts))
    if outlook is None:
        text = "Nothing left to do: all epochs are trained, or there is nothing to learn at all."
        click.echo(text, err=True)
        return ExitCode.NOTHING_TO_DO
    return ExitCode.DONE


def _plan_sentence(outlook: Outlook, parts: tuple[Shard, ...]) -> str:
    count = plural(len(outlook.attempts), "attempt")
    purpose = _PURPOSES[outlook.phase].format(outlook)
    return f"{count} {purpose}, in {plural(len(parts), 'shard')}: {', '.join(map(str, parts))}"


def _as_json(outlook: Outlook | None, parts: tuple[Shard, ...]) -> dict[str, object]:
    return {
        "phase": "" if outlook is None else outlook.phase,
        "step": None if outlook is None else outlook.step,
        "attempts": 0 if outlook is None else len(outlook.attempts),
        "matrix": {"shard": [str(part) for part in parts]},
    }


# ``skillopt-ci rollout``: one machine's share of the attempts that come next.


@click.command()
@click.option("--shard", required=True, metavar="I/N", help="Which part to do, as `plan` names it.")
@click.option(
    "--output",
    "-O",
    type=click.Path(path_type=Path),
    default=Path("answers.jsonl"),
    show_default=True,
    metavar="FILE",
    help="Where to leave the answers.",
)
@global_options
def rollout_command(settings: Globals, shard: str, output: Path) -> ExitCode:
    """Make one shard of the attempts that `plan` sees, and leave the answers in a file.

    Nothing is recorded: `step --rollouts FILE` takes the answers over and does the step. Whatever
    ends this command, the file has all that was answered. Each of N shards has an N-th of the
    budgets. Only ever give `step` files from jobs that you trust like itself: an answer is taken
    for what the model said.
    """
    part, file = Shard.parse(shard), settings.cwd / output
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        outlook = look_ahead(session)
        if outlook is None:
            click.echo("Nothing left to do: all epochs are trained.", err=True)
            return ExitCode.NOTHING_TO_DO
        outcome = asyncio.run(roll_out_shard(session, outlook, part, file))
    if settings.json:
        click.echo(json.dumps({"phase": outlook.phase, "shard": shard, **_facts(outcome)}))
    else:
        click.echo(_rollout_sentence(outcome, output))
    return ExitCode.DONE


def _rollout_sentence(outcome: ShardOutcome, output: Path) -> str:
    errors = plural(outcome.errors, "attempt")
    missing = f"; {errors} not measured, which the step tries again" if outcome.errors else ""
    return (
        f"{plural(outcome.attempts, 'attempt')}, {plural(outcome.answers, 'answer')} in {output}"
        f"{missing}. Used {usage_text(outcome.usage)}."
    )


def _facts(outcome: ShardOutcome) -> dict[str, object]:
    return {
        "attempts": outcome.attempts,
        "errors": outcome.errors,
        "answers": outcome.answers,
        "calls": outcome.usage.calls,
        "tokens": outcome.usage.tokens,
        "cost_usd": outcome.usage.cost_usd,
    }
