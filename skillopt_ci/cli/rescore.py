"""``skillopt-ci rescore``: grade the attempts that were made with the scorer as it is now."""

import asyncio
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import click
import yaml

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.table import print_table
from skillopt_ci.errors import ConfigError, ExitCode
from skillopt_ci.report.text import plural, score
from skillopt_ci.scorers.base import Score
from skillopt_ci.training.offline_eval import Regraded, Rescored, rescore


@click.command()
@click.option(
    "--scorer",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A YAML file with the scorer for all tasks, those with one of their own too.",
)
@click.option("--stage", metavar="NAME", help="Only attempts of this stage, such as selection.")
@global_options
def command(settings: Globals, file: Path | None, stage: str | None) -> ExitCode:
    """Grade the recorded attempts again, and print the scores then and now.

    No attempt is made and nothing is recorded in git. Try another scorer with --scorer, or with
    `-o scorer=…` for tasks that bring none of their own.
    """
    if file is not None:
        given = f"scorer={json.dumps(_scorer(settings.cwd / file))}"
        settings = replace(settings, overrides=(*settings.overrides, given))
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        found = asyncio.run(rescore(session, stage=stage, own_scorers=file is None))
    if settings.json:
        click.echo(json.dumps(_as_json(found)))
    else:
        _print(found, settings)
    return ExitCode.DONE


def _scorer(file: Path) -> object:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"the scorer cannot be read: {error}", file=file) from error
    if not isinstance(content, dict):
        raise ConfigError("expected a scorer, such as `type: exact`", file=file)
    return content.get("scorer", content)


def _print(found: Rescored, settings: Globals) -> None:
    changed = [one for one in found.attempts if _hard(one.before) != _hard(one.after)]
    shown = found.attempts if settings.verbosity > 0 else changed
    if shown:
        rows = [_row(one) for one in shown]
        headings = ("task", "stage", "attempt", "then", "now", "why")
        print_table(headings, rows, sys.stdout, settings.environ)
    then = _mean([one.before for one in found.attempts])
    now = _mean([one.after for one in found.attempts])
    gone = f"; {plural(found.gone, 'attempt')} left out, no longer stored" if found.gone else ""
    click.echo(
        f"{plural(len(found.attempts), 'attempt')}: solved {then} then, {now} now; "
        f"{len(changed)} changed{gone}."
    )


def _row(one: Regraded) -> tuple[str, ...]:
    course = one.course
    return (
        course.task,
        course.stage,
        str(course.attempt),
        score(_hard(one.before)),
        score(_hard(one.after)),
        one.reason,
    )


def _hard(found: Score | None) -> float | None:
    return None if found is None else found.hard


def _mean(scores: list[Score | None]) -> str:
    hard = [one.hard for one in scores if one is not None]
    return score(math.fsum(hard) / len(hard) if hard else None)


def _as_json(found: Rescored) -> dict[str, object]:
    return {
        "attempts": [
            {
                "task": one.course.task,
                "stage": one.course.stage,
                "attempt": one.course.attempt,
                "skill_sha256": one.course.skill_sha256,
                "before": _score_json(one.before),
                "after": _score_json(one.after),
                "reason": one.reason,
            }
            for one in found.attempts
        ],
        "gone": found.gone,
        "calls": found.usage.calls,
        "cost_usd": found.usage.cost_usd,
    }


def _score_json(found: Score | None) -> dict[str, float] | None:
    return None if found is None else {"hard": found.hard, "soft": found.soft}
