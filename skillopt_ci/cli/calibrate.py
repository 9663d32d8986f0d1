"""``skillopt-ci calibrate``: how often the gate errs on a run's own tasks, and what it needs."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TextIO

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.skill_source import find_skill
from skillopt_ci.cli.table import print_table
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.text import plural, usage_text
from skillopt_ci.training.calibrate import POWER, Calibration, Need, Plan, Setting, calibrate


@click.command()
@click.argument("skill", default="current")
@click.option(
    "--effect",
    type=click.FloatRange(0, 1, min_open=True),
    default=None,
    help="Gain of the mean score that the gate should find.  [default: evaluation.gate.effect]",
)
@click.option(
    "--draws",
    type=click.IntRange(2, 50),
    default=4,
    show_default=True,
    help="How often each selection task is attempted.",
)
@global_options
def command(settings: Globals, skill: str, effect: float | None, draws: int) -> ExitCode:
    """Let a skill meet itself: whatever the gate accepts then is chance.

    Attempts every selection task several times under SKILL (`current`, `initial`, a file, a git
    ref, or REF:path) and says which false-accept rate the configured gate has, how often it finds
    a gain of the given size, and how many tasks and attempts that takes.
    """
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        session.ledger.sync()
        text = find_skill(session, skill, settings.cwd).text
        wanted = session.config.evaluation.gate.effect if effect is None else effect
        found = asyncio.run(calibrate(session, text, Plan(wanted, draws)))
    if settings.json:
        click.echo(json.dumps(calibration_json(found)))
    else:
        print_calibration(found, settings, sys.stdout)
    return ExitCode.DONE


def calibration_json(found: Calibration) -> dict[str, object]:
    """The calibration as one object."""
    facts = {**asdict(found), "usage": asdict(found.usage)}
    facts["settings"] = [
        {**asdict(one), "settings": one.settings.model_dump(mode="json")} for one in found.settings
    ]
    return facts


def print_calibration(found: Calibration, settings: Globals, stream: TextIO) -> None:
    """Print what was found as sentences and a table."""
    note = " (simulated models)" if found.simulated else ""
    click.echo(
        f"Calibration on {plural(found.tasks, 'selection task')}{note}: each attempted "
        f"{found.draws} times under the same skill, mean score {found.mean:.3f}. "
        f"{found.undecided:.0%} of the tasks were solved in some attempts and not in others.",
        file=stream,
    )
    click.echo(
        f"Of {plural(found.same_trials, 'comparison')} of the skill with itself the configured "
        f"gate took {found.same_accepted} for a gain.\n",
        file=stream,
    )
    headings = ("gate", "equal skill", "worse skill", "better skill", "attempts per verdict")
    title = (
        f"Accepted in {found.rehearsals} duels with dice each (worse, better: by {found.effect:g})"
    )
    print_table(headings, list(map(_row, found.settings)), stream, settings.environ, title)
    click.echo(file=stream)
    for line in _needs(found):
        click.echo(line, file=stream)
    click.echo(f"Used {usage_text(found.usage)}.", file=stream)


def _row(one: Setting) -> tuple[str, ...]:
    mark = " (configured)" if one.configured else ""
    return (
        one.settings.policy + mark,
        f"{one.false_accepts:.1%}",
        f"{one.worse_accepted:.1%}",
        f"{one.found:.1%}",
        f"{one.attempts:.1f}",
    )


def _needs(found: Calibration) -> Iterator[str]:
    configured = next(one.settings for one in found.settings if one.configured)
    yield (
        f"To find a gain of {found.effect:g} with a probability of {POWER:.0%}, the configured "
        f"gate ({configured.policy}) needs:"
    )
    for need in found.needs:
        yield f"  {plural(need.attempts, 'attempt')} at most per task: {_tasks(need)}"


def _tasks(need: Need) -> str:
    if need.tasks is None:
        return f"more tasks than were tried out (found {need.found:.0%} at most)"
    return f"{plural(need.tasks, 'selection task')} like these (found {need.found:.0%})"
