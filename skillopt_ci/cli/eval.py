"""``skillopt-ci eval``: measure skills on a split."""

import asyncio
import json
import sys
from typing import TextIO

import click
from rich.table import Table
from rich.text import Text

from skillopt_ci.cli.assemble import open_session
from skillopt_ci.cli.console import build_console
from skillopt_ci.cli.context import Globals, global_options
from skillopt_ci.cli.live import build_observer
from skillopt_ci.cli.skill_source import find_skill
from skillopt_ci.errors import ExitCode
from skillopt_ci.report.figures import score, score_text
from skillopt_ci.training.evaluate import Evaluation, evaluate, tasks_of


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
        click.echo(json.dumps(as_json(result)))
    else:
        print_evaluation(result, settings, sys.stdout)
    return ExitCode.DONE


def as_json(result: Evaluation) -> dict[str, object]:
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
                "by_type": {kind: {"hard": m, "tasks": n} for kind, (m, n) in one.by_type.items()},
            }
            for one in result.skills
        ],
        "difference": None
        if difference is None
        else {
            "hard": difference.mean,
            "standard_error": difference.standard_error,
            "tasks": difference.n,
            "fixed": list(difference.fixed),
            "broken": list(difference.broken),
        },
        "calls": result.usage.calls,
        "tokens": result.usage.tokens,
        "cost_usd": result.usage.cost_usd,
    }


def print_evaluation(result: Evaluation, settings: Globals, stream: TextIO) -> None:
    """Print the scores as a table, and the comparison in a sentence."""

    note = " (simulated models)" if result.simulated else ""
    table = Table(title=f"{result.split} tasks{note}", title_justify="left", box=None)
    for heading in ("skill", "solved (95 % interval)", "soft"):
        table.add_column(heading)
    for one in result.skills:
        found = one.measurement
        table.add_row(Text(one.skill.name), score_text(found.hard, found.n), score(found.soft))
    console = build_console(stream, settings.environ)
    console.print(table)
    if result.difference is not None:
        console.print(difference_text(result))


def difference_text(result: Evaluation) -> str:
    """The paired comparison in one sentence."""
    difference = result.difference
    if difference is None:
        return ""
    error = difference.standard_error
    spread = "" if error is None else f" ± {1.96 * error:.3f}"
    return (
        f"Second minus first on the same {difference.n} tasks: {difference.mean:+.3f}{spread}; "
        f"{len(difference.fixed)} fixed, {len(difference.broken)} broken."
    )
