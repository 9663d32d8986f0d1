"""``skillopt-ci eval``: measure skills on a split."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import TextIO

import click

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.skill_source import find_skill
from skillopt_ci.cli.table import print_table
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.terminal import as_values, estimate_text, interval_values, remarks
from skillopt_ci.report.text import plural, score
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.training.offline_eval import Evaluated, Evaluation, evaluate, tasks_of


@click.command()
@click.argument("skills", nargs=-1, metavar="[SKILL [SKILL]]")
@click.option(
    "--split",
    type=click.Choice(["test", "selection", "train", "all"]),
    default="test",
    show_default=True,
    help="Tasks to measure on.",
)
@global_options
def command(settings: Globals, skills: tuple[str, ...], split: str) -> ExitCode:
    """Measure one skill on a split, or compare two of them task by task.

    SKILL is `best`, `current` or `initial` of the run, a file, a git ref, or REF:path. Without
    one, `initial` and `best` are compared.
    """
    words = skills or ("initial", "best")
    if len(words) > 2:  # noqa: PLR2004 - a comparison takes two
        raise click.UsageError("Name one skill, or two to compare.")
    with build_observer(settings) as observer:
        session = open_session(settings, observer)
        if not tasks_of(session, split):
            raise click.UsageError(f"The configuration names no {split} tasks.")
        session.ledger.sync()
        named = [find_skill(session, word, settings.cwd) for word in words]
        result = asyncio.run(evaluate(session, named, split))
    if settings.json:
        click.echo(json.dumps(evaluation_json(result)))
    else:
        print_evaluation(result, settings, sys.stdout)
    return ExitCode.DONE


def evaluation_json(result: Evaluation) -> dict[str, object]:
    """The evaluation as one object."""
    difference = result.difference
    return {
        "split": result.split,
        "simulated": result.simulated,
        "skills": [
            {
                "name": one.skill.name,
                "sha256": one.skill.sha256,
                "hard": one.measurement.hard,
                "soft": one.measurement.soft,
                "tasks": one.measurement.n,
                "errors": len(one.measurement.errors),
                **as_values(one.summary),
            }
            for one in result.skills
        ],
        "difference": None
        if difference is None
        else {
            "hard": difference.mean,
            "standard_error": difference.standard_error,
            "interval": interval_values(difference.interval),
            "clusters": difference.clusters,
            "tasks": difference.n,
            "fixed": list(difference.fixed),
            "broken": list(difference.broken),
        },
        "calls": result.usage.calls,
        "tokens": result.usage.tokens,
        "cost_usd": result.usage.cost_usd,
    }


def print_evaluation(result: Evaluation, settings: Globals, stream: TextIO) -> None:
    """Print the scores as a table, what is to be said of them, and the comparison.

    ``-v`` adds task types and the lengths of conversations.
    """
    note = " (simulated models)" if result.simulated else ""
    headings = ("skill", "solved (95 % interval)", "soft")
    rows = [row for one in result.skills for row in _rows(one, types=settings.verbosity > 0)]
    print_table(headings, rows, stream, settings.environ, f"{result.split} tasks{note}")
    for one in result.skills:
        for line in remarks(one.summary, all_of_them=settings.verbosity > 0):
            click.echo(f"{harmless_line(one.skill.name)}: {harmless_line(line)}", file=stream)
    if result.difference is not None:
        click.echo(difference_text(result), file=stream)


def _rows(one: Evaluated, *, types: bool) -> Iterator[tuple[str, ...]]:
    found = one.measurement
    errors = f", {plural(len(found.errors), 'error')}" if found.errors else ""
    yield one.skill.name, estimate_text(one.summary.hard) + errors, score(found.soft)
    for bucket in one.summary.by_type if types else ():
        yield f"  {bucket.task_type}", estimate_text(bucket.hard), score(bucket.soft.mean)


def difference_text(result: Evaluation) -> str:
    """The paired comparison: the sentence, and the tasks that flipped."""
    difference = result.difference
    if difference is None:
        return ""
    interval = difference.interval
    spread = "" if interval is None else f" ± {interval.high - difference.mean:.3f}"
    first, second = (harmless_line(one.skill.name) for one in result.skills)
    return (
        f"{second} minus {first}, on the same {plural(difference.n, 'task')}: "
        f"{difference.mean:+.3f}{spread}{' (95 %)' if spread else ''}.\n"
        f"{len(difference.fixed)} fixed, {len(difference.broken)} broken."
    )
