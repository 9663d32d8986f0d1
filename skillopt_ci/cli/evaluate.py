"""``skillopt-ci eval``, ``trace``, ``rescore`` and ``calibrate``: what attempts and scores say."""

import asyncio
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean

import click
import yaml

from skillopt_ci.cli.build import events_path, load_configured, opened
from skillopt_ci.cli.console import print_table
from skillopt_ci.cli.options import FILE, Globals, command, print_json
from skillopt_ci.cli.read import find_skill
from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.errors import ConfigError, UsageError
from skillopt_ci.estimate.estimate import estimate_measuring
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.report import terminal
from skillopt_ci.report.words import gain_text, usage_text
from skillopt_ci.rollout.events import attempt_traces, read_events
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.scorers.base import Score
from skillopt_ci.text import names_text, percent, plural, rounded, score
from skillopt_ci.training import offline_eval
from skillopt_ci.training.state import find_checkout
from skillopt_ci.util import nearest, pick, user_text

#: What is told of a difference in JSON.
_DIFFERENCE = "hard=mean standard_error interval clusters tasks=n fixed broken"


@command()
@click.argument("skills", nargs=-1, metavar="[SKILL [SKILL]]")
@click.option(
    "--split",
    type=click.Choice(["test", "selection", "train", "all"]),
    default="test",
    help="Tasks to evaluate on.",
)
@click.option(
    "--baseline",
    type=click.Choice(["none"]),
    help="Also evaluate without any skill, and print what the last SKILL adds.",
)
def eval_command(
    settings: Globals, skills: tuple[str, ...], split: str, baseline: str | None
) -> None:
    """Evaluate a skill on a split, or compare two skills task by task.

    SKILL is the run's `best`, `current` or `initial` skill, the number of a step (the skill after
    that step), a file, a git ref, or REF:path. Without SKILL, compares `initial` and `best`. Calls
    models, so it costs money; changes nothing.
    """
    words = skills or ("initial", "best")
    if len(words) > 2:  # noqa: PLR2004 - a comparison takes two
        raise click.UsageError("Name one skill, or two to compare.")
    with opened(settings) as run:
        if not offline_eval.tasks_of(run, split):
            raise click.UsageError(f"The configuration names no {split} tasks.")
        run.ledger.sync()
        named = [find_skill(run, word, settings) for word in words]
        result = asyncio.run(
            offline_eval.evaluate_skills(run, named, split, baseline=baseline is not None)
        )
    if settings.json:
        none, worth = result.baseline, result.worth and pick(result.worth, _DIFFERENCE)
        print_json(
            {
                **pick(result, "split simulated"),
                "skills": [_skill_json(one) for one in result.skills],
                "difference": result.difference and pick(result.difference, _DIFFERENCE),
                **({} if none is None else {"baseline": _skill_json(none), "worth": worth}),
                **pick(result.usage, "calls tokens cost_usd"),
            }
        )
    else:
        verbose = settings.verbosity > 0
        title = f"{result.split} tasks" + (" (simulated models)" if result.simulated else "")
        arms = (*filter(None, [result.baseline]), *result.skills)
        rows = [row for one in arms for row in _rows(one, types=verbose)]
        print_table(settings, ("solved (95 % interval)", "soft", "skill"), rows, title)
        for one in arms:
            for line in terminal.remarks(one.summary, all_of_them=verbose):
                settings.say(harmless_line(f"{one.skill.name}: {line}"))
        for other, found in ((result.skills[0], result.difference), (arms[0], result.worth)):
            if found is not None:
                settings.say(
                    f"{harmless_line(arms[-1].skill.name)} minus {harmless_line(other.skill.name)}"
                    f", on the same {plural(found.n, 'task')}: {gain_text(found)}.\n"
                    f"{len(found.fixed)} fixed, {len(found.broken)} broken."
                )
        settings.say(f"Used {usage_text(result.usage)}.")


def _skill_json(one: offline_eval.Evaluated) -> dict[str, object]:
    return {
        **pick(one, "name=skill.name sha256=skill.sha256 hard=measurement.hard"),
        **pick(one, "soft=measurement.soft tasks=measurement.n"),
        "errors": len(one.measurement.errors),
        "scores": {
            task: {"hard": hard, "soft": soft}
            for task, (hard, soft) in one.measurement.tasks.items()
        },
        "unmeasured": one.measurement.errors,
        **terminal.as_values(one.summary),
    }


def _rows(one: offline_eval.Evaluated, *, types: bool) -> Iterator[tuple[str, ...]]:
    found = one.measurement
    errors = f", {plural(len(found.errors), 'error')}" if found.errors else ""
    yield terminal.estimate_text(one.summary.hard) + errors, score(found.soft), one.skill.name
    for bucket in one.summary.by_type if types else ():
        yield terminal.estimate_text(bucket.hard), score(bucket.soft.mean), f"  {bucket.task_type}"


@command()
@click.option(
    "--scorer",
    "file",
    type=FILE,
    metavar="FILE",
    help="A YAML file with one scorer for all tasks, even those with their own.",
)
@click.option("--stage", metavar="NAME", help="Only attempts of this stage, such as selection.")
def rescore_command(settings: Globals, file: Path | None, stage: str | None) -> None:
    """Grade the recorded attempts again, and print old and new scores.

    Makes no new attempts and records nothing in git; leaves out those without an answer, such as
    refused ones. To try another scorer, use --scorer, or `-o scorer=…` for tasks without their own.
    """
    if file is not None:
        given = f"scorer={json.dumps(_scorer(settings.cwd / file))}"
        settings = replace(settings, overrides=(*settings.overrides, given))
    with opened(settings) as run:
        found = asyncio.run(offline_eval.rescore(run, stage=stage, own_scorers=file is None))
    if settings.json:
        objects = [
            {
                **pick(one.trace, "task stage attempt skill_sha256"),
                "before": one.before and pick(one.before, "hard soft"),
                "after": one.after and pick(one.after, "hard soft"),
                "reason": one.reason,
            }
            for one in found.attempts
        ]
        print_json({"attempts": objects, "gone": found.gone, **pick(found.usage, "calls cost_usd")})
        return
    rows = [
        (
            *map(str, pick(one.trace, "task stage attempt").values()),
            *(_means([grade]) for grade in (one.before, one.after)),
            one.reason,
        )
        for one in found.attempts
    ]
    changed = [row for row in rows if row[3] != row[4]]  # then and now
    if shown := rows if settings.verbosity > 0 else changed:
        headings = ("task", "stage", "attempt", "then", "now", "why")
        print_table(settings, headings, shown, "", ("attempt", "stage"))
    then = _means(one.before for one in found.attempts)
    now = _means(one.after for one in found.attempts)
    gone = f"; {plural(found.gone, 'attempt')} left out, no longer stored" if found.gone else ""
    used = f" Used {usage_text(found.usage)}." if found.usage.calls else ""
    settings.say(
        f"{plural(len(found.attempts), 'attempt')}: solved {then} then, {now} now; "
        f"{len(changed)} changed{gone}.{used}"
    )


def _scorer(file: Path) -> object:
    try:
        content = load_yaml(user_text(file))
    except yaml.YAMLError as error:
        raise ConfigError(f"the scorer cannot be read: {error}", file=file) from error
    if not isinstance(content, dict):
        raise ConfigError("expected a scorer, such as `type: exact`", file=file)
    return content.get("scorer", content)


def _means(scores: Iterable[Score | None]) -> str:
    """The share solved, and the mean partial credit where that differs; a dash without a score."""
    graded = [one for one in scores if one is not None]
    hard = score(fmean(one.hard for one in graded) if graded else None)
    soft = score(fmean(one.soft for one in graded) if graded else None)
    return hard if hard == soft else f"{hard} (soft {soft})"


@command()
@click.argument("task")
@click.option("--attempt", type=click.IntRange(0), help="The attempt's number, from 0.")
@click.option("--stage", metavar="NAME", help="Only this stage, such as selection or test.")
@click.option("--skill", metavar="SHA256", help="Only under the skill whose hash starts with this.")
@click.option("--whole", is_flag=True, help="Do not shorten long texts.")
def trace_command(
    settings: Globals,
    task: str,
    attempt: int | None,
    stage: str | None,
    skill: str | None,
    whole: bool,
) -> None:
    """Show the latest attempt at TASK, step by step, as recorded on this machine."""
    loaded = load_configured(settings)
    ledger = Ledger.open(loaded.root, loaded.config.run, loaded.config.git)
    found, steps = None, dict[object, list[Mapping[str, object]]]()  # by the work's key
    seen: dict[str, dict[str, None]] = {}  # attempts by task
    for trace in attempt_traces(read_events(events_path(ledger))):
        seen.setdefault(trace.task, {})[f"{trace.stage} {trace.attempt}"] = None
        if trace.task == task and trace.work and not trace.work.get("stored"):
            steps[trace.work.get("key")] = trace.events[1:]
        meant = attempt in (None, trace.attempt) and stage in (None, trace.stage)
        if meant and trace.task == task and trace.skill_sha256.startswith(skill or ""):
            found = trace
    if not seen:
        raise UsageError(
            f"No attempt of run '{ledger.run}' is recorded on this machine.",
            hint="Attempts are recorded where they are made, unless `rollout.events` is false.",
        )
    if found is None:
        if task in seen:
            hint = f"Recorded attempts: {names_text([*seen[task]])}."
        else:
            others = nearest(task, seen) or f"Tasks with attempts: {names_text(sorted(seen))}."
            hint = f"{others} Test tasks are attempted at the end of a run."
        raise UsageError(f"No such attempt at task {task!r} is recorded.", hint=hint)
    if (work := found.work) and work.get("stored"):  # its steps are told where it was made
        found.events[1:1] = steps.get(work.get("key"), ())
    if settings.json:
        print_json(list(found.events))
        return
    for heading, text in terminal.trace_lines(found, whole=whole):
        click.secho(harmless_line(heading), bold=True, color=settings.colour)
        click.echo(textwrap.indent(harmless(text), "  ") + "\n")


@command()
@click.argument("skill", default="current")
@click.option(
    "--effect",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.1,
    help="The gain of the mean score to detect.",
)
@click.option("--draws", type=click.IntRange(2, 50), default=4, help="Measurements to compare.")
def calibrate_command(settings: Globals, skill: str, effect: float, draws: int) -> None:
    """Compare a skill with itself to measure false accepts.

    Attempts every selection task several times under SKILL (`current`, `initial`, a step's number,
    a file, a git ref, or REF:path), which costs money. Estimates how often the gate accepts a skill
    that is equally good, worse or better, with your selection tasks and with more of them.
    """
    with opened(settings) as run:
        position, text = run.ledger.sync(), find_skill(run, skill, settings).text
        price = estimate_measuring(run, find_checkout(run.ledger, run.skill_path, position), draws)
        made = draws * run.config.rollout.attempts
        if settings.verbosity >= 0:
            settings.say(f"{made} attempts at each selection task: {price}", err=True)
        found = asyncio.run(offline_eval.calibrate(run, text, effect, draws))
    if settings.json:
        print_json(asdict(found))
        return
    settings.say(
        f"Calibration on {plural(found.tasks, 'selection task')}"
        f"{' (simulated models)' if found.simulated else ''}: each attempted {made} times "
        f"under the same skill, mean score {rounded(found.mean)}. {percent(found.undecided)} "
        "of the tasks were solved in some attempts and not in others.\n"
        f"Of {plural(found.same_compared, 'comparison')} of the skill with itself the gate took "
        f"{found.same_accepted} for a gain.\n"
    )
    if found.mean == 1:
        settings.say("Every attempt solved its task: no edit can score higher. Add harder tasks.")
    elif not found.mean:
        settings.say(
            "No attempt solved any task: the scorer is wrong, the tasks are too hard, or they give "
            "only partial credit, which is not simulated. Look at one: skillopt-ci trace TASK"
        )
    else:
        within = found.effect <= found.mean <= 1 - found.effect
        print_table(
            settings,
            ("tasks", "equal", "worse", "better"),
            [
                (f"{one.tasks:,}", f"{one.same:.1%}", f"{one.worse:.1%}", f"{one.better:.1%}")
                for one in found.rates
            ],
            f"Skills accepted in {found.trials} simulated comparisons (worse, better: by "
            f"{found.effect:g}{'' if within else ', or to a score of 0 or 1'})",
        )
    settings.say(f"\nUsed {usage_text(found.usage)}.")
