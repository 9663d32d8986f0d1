"""``skillopt-ci plan``: what there is to share out over many machines."""

import json

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.text import plural
from skillopt_ci.training.prefetch_plan import Outlook, look_ahead
from skillopt_ci.training.shard import Shard, shards

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
def command(settings: Globals, most: int) -> ExitCode:
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
        click.echo(_sentence(outlook, parts))
    if outlook is None:
        text = "Nothing left to do: all epochs are trained, or there is nothing to learn at all."
        click.echo(text, err=True)
        return ExitCode.NOTHING_TO_DO
    return ExitCode.DONE


def _sentence(outlook: Outlook, parts: tuple[Shard, ...]) -> str:
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
