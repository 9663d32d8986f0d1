"""``skillopt-ci discover``: the skills of a repository, and the runs that train them."""

import json
import sys

import click

from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.survey import FoundSkill, Survey, survey
from skillopt_ci.cli.table import print_table
from skillopt_ci.errors import ExitCode
from skillopt_ci.sanitize import harmless


@click.command()
@global_options
def command(settings: Globals) -> ExitCode:
    """Find what agents read in this repository, and which runs train it.

    With --json, `matrix` is what a workflow's `strategy.matrix` takes by `fromJSON`: a job for
    each run, with its `run` and `config`. Ends with 2 if runs are in each other's way or a
    configuration cannot be used, and with 3 if there is neither a skill nor a run.
    """
    found = survey(settings.cwd)
    if settings.json:
        click.echo(json.dumps(_as_json(found)))
    elif found.skills:
        rows = [_row(skill) for skill in found.skills]
        print_table(
            ("words", "read by", "trained by", "document"), rows, sys.stdout, settings.environ
        )
    for problem in found.problems:
        click.echo(f"error: {harmless(problem)}", err=True)
    if found.problems:
        return ExitCode.USAGE
    return _advised(found, settings)


def _advised(found: Survey, settings: Globals) -> ExitCode:
    if not found.skills:
        click.echo("Nothing here that agents read: `skillopt-ci init` writes a skill.", err=True)
        return ExitCode.NOTHING_TO_DO
    untrained = [skill.path for skill in found.skills if not skill.runs]
    if untrained and not settings.json and settings.verbosity >= 0:
        click.echo(f"\nTo train one: skillopt-ci init --skill {harmless(untrained[0])}")
    return ExitCode.DONE


def _row(skill: FoundSkill) -> tuple[str, str, str, str]:
    return (
        "?" if skill.words is None else str(skill.words),
        skill.place.reader if skill.place else "",
        ", ".join(skill.runs) or "-",
        skill.path,
    )


def _as_json(found: Survey) -> dict[str, object]:
    return {
        "documents": [
            {
                "path": skill.path,
                "read_by": skill.place.reader if skill.place else None,
                "words": skill.words,
                "runs": skill.runs,
            }
            for skill in found.skills
        ],
        "runs": [{"run": run.name, "config": run.config, "skill": run.skill} for run in found.runs],
        "problems": found.problems,
        "matrix": {"include": [{"run": run.name, "config": run.config} for run in found.runs]},
    }
