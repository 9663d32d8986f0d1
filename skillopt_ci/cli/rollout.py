"""``skillopt-ci rollout``: one machine's share of the attempts that come next."""

import asyncio
import json
from pathlib import Path

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.text import plural, usage_text
from skillopt_ci.training.prefetch_plan import look_ahead
from skillopt_ci.training.shard import Shard, ShardOutcome, roll_out_shard


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
def command(settings: Globals, shard: str, output: Path) -> ExitCode:
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
        click.echo(_sentence(outcome, output))
    return ExitCode.DONE


def _sentence(outcome: ShardOutcome, output: Path) -> str:
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
