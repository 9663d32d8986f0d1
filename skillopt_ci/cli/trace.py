"""``skillopt-ci trace``: how an attempt at a task went."""

import json
import sys
import textwrap

import click

from skillopt_ci.cli.assemble import events_path
from skillopt_ci.cli.console import wants_colour
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.config.loading import load
from skillopt_ci.errors import ExitCode, UsageError
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.report.terminal import course_lines
from skillopt_ci.rollout.events import Course, courses, read_events
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.tasks.files import did_you_mean


@click.command()
@click.argument("task")
@click.option("--attempt", type=click.IntRange(0), help="Which one, counting from 0.")
@click.option("--stage", metavar="NAME", help="Such as rollout, selection, test.")
@click.option(
    "--skill", metavar="SHA256", default="", help="How the hash of the skill begins that was read."
)
@click.option("--whole", is_flag=True, help="Leave nothing out of long texts.")
@global_options
def command(
    settings: Globals, task: str, attempt: int | None, stage: str | None, skill: str, whole: bool
) -> ExitCode:
    """Show how the latest attempt at TASK went, step by step, from this machine's record."""
    course = _find(settings, task, attempt, stage, skill)
    if settings.json:
        click.echo(json.dumps(list(course.events)))
        return ExitCode.DONE
    colour = wants_colour(sys.stdout, settings.environ)
    for heading, text in course_lines(course, whole=whole):
        head = harmless_line(heading)
        click.echo(click.style(head, bold=True) if colour else head)
        click.echo(textwrap.indent(harmless(text), "  ") + "\n")
    return ExitCode.DONE


def _find(
    settings: Globals, task: str, attempt: int | None, stage: str | None, skill: str
) -> Course:
    loaded = load(settings.cwd / settings.config, settings.overrides)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    folder = events_path(ledger, loaded.config.run)
    found, known = None, dict[str, None]()
    for course in courses(read_events(folder)):
        known[course.task] = None
        if (
            course.task == task
            and attempt in (None, course.attempt)
            and stage in (None, course.stage)
            and course.skill_sha256.startswith(skill)
        ):
            found = course
    if found is not None:
        return found
    if not known:
        raise UsageError(
            f"Nothing is recorded of run '{loaded.config.run}' on this machine.",
            hint="Attempts are recorded in the clone that makes them, unless `rollout.events` "
            "is false.",
        )
    if task in known:
        raise UsageError(f"No such attempt at task {task!r} is recorded.")
    raise UsageError(f"No attempt at task {task!r} is recorded; {did_you_mean(task, known)}")
