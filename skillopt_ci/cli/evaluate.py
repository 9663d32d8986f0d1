"""``skillopt-ci eval``: measure skills on a split."""

import asyncio
import json
import math
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

import click
import yaml

from skillopt_ci.cli.build import events_path, find_skill, open_session
from skillopt_ci.cli.options import Globals, global_options, wants_colour
from skillopt_ci.cli.progress import build_observer
from skillopt_ci.cli.table import print_table
from skillopt_ci.config.loading import load
from skillopt_ci.errors import ConfigError, ExitCode, UsageError
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.report.terminal import (
    as_values,
    course_lines,
    estimate_text,
    interval_values,
    remarks,
)
from skillopt_ci.report.words import usage_text
from skillopt_ci.rollout.events import AttemptTrace, attempt_traces, read_events
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.scorers.base import Score
from skillopt_ci.text import plural, score
from skillopt_ci.training.calibrate import POWER, Calibration, Need, Plan, Setting, calibrate
from skillopt_ci.training.offline_eval import (
    Evaluated,
    Evaluation,
    Regraded,
    Rescored,
    evaluate,
    rescore,
    tasks_of,
)
from skillopt_ci.util import did_you_mean


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
def eval_command(settings: Globals, skills: tuple[str, ...], split: str) -> ExitCode:
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


# ``skillopt-ci rescore``: grade the attempts that were made with the scorer as it is now.


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
def rescore_command(settings: Globals, file: Path | None, stage: str | None) -> ExitCode:
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
        rows = [_rescore_row(one) for one in shown]
        headings = ("task", "stage", "attempt", "then", "now", "why")
        print_table(headings, rows, sys.stdout, settings.environ)
    then = _mean([one.before for one in found.attempts])
    now = _mean([one.after for one in found.attempts])
    gone = f"; {plural(found.gone, 'attempt')} left out, no longer stored" if found.gone else ""
    click.echo(
        f"{plural(len(found.attempts), 'attempt')}: solved {then} then, {now} now; "
        f"{len(changed)} changed{gone}."
    )


def _rescore_row(one: Regraded) -> tuple[str, ...]:
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


# ``skillopt-ci trace``: how an attempt at a task went.


@click.command()
@click.argument("task")
@click.option("--attempt", type=click.IntRange(0), help="Which one, counting from 0.")
@click.option("--stage", metavar="NAME", help="Such as rollout, selection, test.")
@click.option(
    "--skill", metavar="SHA256", default="", help="How the hash of the skill begins that was read."
)
@click.option("--whole", is_flag=True, help="Leave nothing out of long texts.")
@global_options
def trace_command(
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
) -> AttemptTrace:
    loaded = load(settings.cwd / settings.config, settings.overrides)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    folder = events_path(ledger, loaded.config.run)
    found, known = None, dict[str, None]()
    for course in attempt_traces(read_events(folder)):
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


# ``skillopt-ci calibrate``: how often the gate errs on a run's own tasks, and what it needs.


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
def calibrate_command(settings: Globals, skill: str, effect: float | None, draws: int) -> ExitCode:
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
    print_table(
        headings, list(map(_calibrate_row, found.settings)), stream, settings.environ, title
    )
    click.echo(file=stream)
    for line in _needs(found):
        click.echo(line, file=stream)
    click.echo(f"Used {usage_text(found.usage)}.", file=stream)


def _calibrate_row(one: Setting) -> tuple[str, ...]:
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
