"""Checks of each part of a run by itself, before anything is paid for, and how they are printed."""

import asyncio
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal

import click

from skillopt_ci.aio import map_ordered
from skillopt_ci.cli.build import (
    all_tasks,
    check_computers,
    learn_secrets,
    load_configured,
    read_tasks,
    roles_of,
    skill_path,
    unconfined_programs,
)
from skillopt_ci.cli.options import Globals, print_json, wants_colour
from skillopt_ci.cli.scaffold import existing_skill, slug, unchanged_examples
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.models import ModelRole
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.confinement import current
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.model.access import api_key, headers_of
from skillopt_ci.model.budget import Meter
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.computer_pool import ComputerPool, open_computer_pool
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.sanitize import harmless
from skillopt_ci.scorers.base import GraderError
from skillopt_ci.scorers.build import check_scorers
from skillopt_ci.scorers.code import Functions
from skillopt_ci.skill.validation import LFS_REMEDY, problems
from skillopt_ci.stats import wilson
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.text import plural, score_text
from skillopt_ci.training.plan import total_steps
from skillopt_ci.util import is_lfs_pointer, read_text

#: From this many tasks on, the 95 % interval of a score is no wider than ±0.2.
_ENOUGH = 20
#: Fewer training tasks than this teach their own answers rather than a rule.
_ENOUGH_TO_LEARN = 10
_PLENTY = 100
#: A run's graders are mostly one and the same; where each task has its own, these stand for all.
_MOST_TRIED = 16
_TRIED_AT_A_TIME = 4
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
_TEXT_STARTS = 26
_NARROWEST = 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``exit_code`` is what an error of its kind ends a command with."""

    part: str
    level: Literal["ok", "warning", "error"]
    text: str
    exit_code: ExitCode = ExitCode.DONE
    blocks: bool = False
    """A warning that validation gets over and a training step does not: a key that is missing."""


def failed(part: str, error: SkilloptError) -> Finding:
    """The finding that ``error`` amounts to."""
    return Finding(part, "error", str(error), error.exit_code)


def mend(part: str, text: str) -> Finding:
    """An error that the user can mend."""
    return Finding(part, "error", text, ExitCode.USAGE)


def _found(part: str, text: str, check: Callable[[], object]) -> Finding:
    """That all is well, as ``text`` says, or the finding that the error of ``check`` amounts to."""
    try:
        check()
    except SkilloptError as error:
        return failed(part, error)
    return Finding(part, "ok", text)


def up_to_error(part: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings; an error that ends them is the last one."""
    try:
        yield from findings
    except SkilloptError as error:
        yield failed(part, error)


def report(verdict: str, found: Sequence[Finding], settings: Globals, **more: object) -> ExitCode:
    """Print the findings; ``verdict`` names the key that says whether nothing is wrong."""
    code = exit_code(found)
    if settings.json:
        rows = [{"part": f.part, "level": f.level, "text": f.text} for f in found]
        print_json({verdict: code is ExitCode.DONE, "findings": rows, **more})
    else:
        _print_findings(found, settings)
    return code


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """What the command ends with: the user's own errors go before those of the world."""
    codes = {finding.exit_code for finding in findings}
    return min(codes - {ExitCode.DONE}, default=ExitCode.DONE)


def _print_findings(findings: Sequence[Finding], settings: Globals) -> None:
    """Print a line for each finding, coloured by its level, and a conclusion."""
    colour, wrapper = wants_colour(sys.stdout, settings.environ), None
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size().columns - _TEXT_STARTS, _NARROWEST)
        # paths and addresses stay whole, to be copied
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    for finding in findings:
        if settings.verbosity >= 0 or finding.level != "ok":
            mark = f"{finding.level:<7}"
            mark = click.style(mark, fg=_COLOURS[finding.level]) if colour else mark
            lines = harmless(finding.text).split("\n")
            if wrapper is not None:
                lines = [part for line in lines for part in wrapper.wrap(line) or [""]]
            text = f"\n{'':<{_TEXT_STARTS}}".join(lines)
            click.echo(f"{mark}  {finding.part:<15}  {text}")
    if settings.verbosity >= 0:
        click.echo(f"\n{_conclusion(findings, settings.same_run)}")


def _conclusion(findings: Sequence[Finding], same_run: str) -> str:
    levels = [finding.level for finding in findings]
    errors, warnings = levels.count("error"), levels.count("warning")
    if errors:
        return f"{plural(errors, 'error')}, {plural(warnings, 'warning')}."
    besides = f" ({plural(warnings, 'warning')})" if warnings else ""
    blocking = [finding.part for finding in findings if finding.blocks]
    if blocking:
        return f"Nothing else to mend{besides}, but no step can start: see {', '.join(blocking)}."
    return f"Ready to train{besides}: skillopt-ci step{same_run}"


# The parts of a run. No model is called.


def check_run(settings: Globals) -> tuple[Loaded | None, list[Finding]]:
    """Check every part of the run; None for a configuration that cannot be used."""
    try:
        loaded = load_configured(settings)
    except SkilloptError as error:
        return None, [failed("config", error)]
    learn_secrets(settings.redact, loaded, settings.environ)
    config = loaded.config
    found = [Finding("config", "ok", f"{settings.config}: run {config.run!r}")]
    found += [Finding("config", "warning", warning) for warning in loaded.warnings]
    found += up_to_error("tasks", _check_tasks(loaded, settings.environ))
    if (folder := config.prompts) is not None:
        found.append(_found("prompts", folder, lambda: Prompts.load(loaded.root / folder)))
    found += _check_models(loaded, settings.environ)
    found += _check_skill(loaded)
    found += up_to_error("git", _check_repository(loaded))
    return loaded, found


def _check_tasks(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    config, root = loaded.config, loaded.root
    splits, environment = read_tasks(loaded, environ)
    train, selection, test = map(len, (splits.train, splits.selection, splits.test))
    sizes = f"{train} train, {selection} selection, {test} test"
    yield Finding("tasks", "ok", f"{sizes}; no task stands in two splits")
    for text in _few_tasks(
        train, len(splits.selection[: config.evaluation.sel_env_num or None]), test
    ):
        yield Finding("tasks", "warning", text)
    try:
        steps = plural(total_steps(train, config.train), "step")
        epochs = plural(config.train.num_epochs, "epoch")
        yield Finding("plan", "ok", f"{steps} in {epochs}")
    except SkilloptError as error:
        yield failed("plan", error)
    if examples := unchanged_examples(root, config.tasks):
        text = f"{', '.join(examples)} still hold the examples of `init`: put your own tasks there"
        yield Finding("tasks", "warning", text)

    pool, computers = None, list[Finding]()
    try:
        pool = open_computer_pool(config, root, environ)
        check_computers(splits, config, pool)
        if pool is not None:
            pool.computers.check()
            computers = [Finding("computer", "ok", f"{pool.computers.name} works here")]
            if pool.computers.caveat:
                computers.append(Finding("computer", "warning", pool.computers.caveat))
    except SkilloptError as error:
        computers = [failed("computer", error)]
    if environment is not None and environment.grades:
        yield Finding("scorers", "ok", "the environment grades")
    else:
        check = partial(check_scorers, splits, config.scorer, root=root, environ=environ)
        scorers = _found("scorers", "every task has one that can grade it", check)
        yield scorers
        if not any(one.level == "error" for one in (scorers, *computers)):
            yield from _try_graders(splits, loaded, environ, pool)
    yield from computers

    starts, left = unconfined_programs(config, all_tasks(splits), environment)
    if left:
        text = (
            f"not kept from secrets: {'; '.join(left)}\nThey can read your files and what other "
            "programs of yours hold, such as the shell that exported a key. Pull requests are not "
            "evaluated here unless `rollout.programs_can_read_secrets` is set."
        )
        yield Finding("programs", "warning", text)
    elif starts:
        kind = {"sandbox": "in a sandbox", "user": "as another user"}[current().kind]
        yield Finding("programs", "ok", f"run {kind}, away from keys, tokens and .git")


def _few_tasks(train: int, selection: int, test: int) -> Iterator[str]:
    """Say of each split that is too small what that does, and how many tasks would do."""

    def known_to(tasks: int) -> str:
        """Half of the 95 % interval around a score of 0.5, where it is widest."""
        interval = wilson(0.5, tasks)
        return f"±{(interval.high - interval.low) / 2:.2f}"

    if train < _ENOUGH_TO_LEARN:
        yield (
            f"only {plural(train, 'training task')}: the skill will fit these and little else; "
            f"use {_ENOUGH_TO_LEARN} or more, of different kinds"
        )
    if selection < _ENOUGH:
        yield (
            f"only {plural(selection, 'selection task')}: with so few, the gate decides largely by "
            f"chance; a score of 0.5 is known to {known_to(selection)} (95 %), with {_ENOUGH} to "
            f"{known_to(_ENOUGH)}, with {_PLENTY} to {known_to(_PLENTY)} (see `calibrate`)"
        )
    if test == 0:
        text = "no test tasks: nothing checks the final score on unseen tasks"
        yield f"{text}; add {_ENOUGH} or more"
    elif test < _ENOUGH:
        yield f"only {plural(test, 'test task')}: the final score is known to {known_to(test)}"


def _try_graders(
    splits: Splits, loaded: Loaded, environ: Mapping[str, str], pool: ComputerPool | None
) -> Iterator[Finding]:
    """Whether the scorers that are programs can grade an empty submission."""

    async def fault(one: tuple[ScorerSpec, Task]) -> str:
        part, task = one
        try:
            await scorers.try_out(part, task)
        except GraderError as error:
            return f"task {task.id!r}, an empty submission: {error.message}"
        return ""

    with closing(Functions(environ)) as functions:
        scorers = TaskScorers(
            loaded.config.scorer,
            judge=None,
            root=loaded.root,
            environ=environ,
            pool=pool,
            limits=loaded.config.rollout.limits,
            functions=functions,
        )
        graders = scorers.programs(all_tasks(splits))
        tried = map_ordered(fault, graders[:_MOST_TRIED], limit=_TRIED_AT_A_TIME)
        faults = [*filter(None, asyncio.run(tried))]
    if faults:
        text = (
            f"{faults[0]}\nA grader must give a verdict on any work, none at all included: "
            "otherwise its own failure cannot be told from the work's, which scores 0."
        )
        yield mend("scorers", text)
    elif graders:
        some = "" if len(graders) <= _MOST_TRIED else f"{_MOST_TRIED} of "
        text = f"{some}{plural(len(graders), 'grader')} tried on an empty submission"
        yield Finding("scorers", "ok", text)


def _check_models(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    config = loaded.config
    try:
        Meter(step=config.budget.step, run=config.budget.run).require_prices(config.model)
    except SkilloptError as error:
        yield failed("budget", error)
    for name, role in roles_of(config.model).items():
        try:
            api_key(f"model.{name}", role, environ, loaded.root)
            headers_of(f"model.{name}", role, environ)
        except SkilloptError as error:
            # whoever checks a pull request from a fork has no keys, and needs none
            yield Finding(f"model.{name}", "warning", str(error), blocks=True)
        else:
            text = f"{role.model} ({role.provider})"
            yield _found(f"model.{name}", text, partial(_check_simulated, name, role))


def _check_simulated(name: str, role: ModelRole) -> None:
    if role.provider == "simulated":
        # Imported late: real models need none of it.
        from skillopt_ci.demo.client import find_model  # noqa: PLC0415

        find_model(role.model, f"model.{name}.model")


def _check_skill(loaded: Loaded) -> Iterator[Finding]:
    name = loaded.config.skill
    file = loaded.root / name
    try:
        text = read_text(file)
    except FileNotFoundError:
        other = existing_skill(loaded.root)
        meant = "" if other is None else f"\nDid you mean {other}?"
        yield mend("skill", f"{name}: there is no such file{meant}")
        return
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        yield mend("skill", f"{name}: {reason}")
        return
    found = problems(text, file)
    for problem in found:
        line = "" if problem.line is None else f":{problem.line}"
        told = f"{name}{line}: {problem.message}"
        if problem.message.startswith("SKILL.md must start with YAML frontmatter"):
            told += (
                "\nAgents load it by its first lines. Begin the file with these:\n---\n"
                f"name: {slug(file.parent.name)}\ndescription: what for, and when\n---"
            )
        code = ExitCode.USAGE if problem.severity == "error" else ExitCode.DONE
        yield Finding("skill", problem.severity, told, code)
    if not found:
        yield Finding("skill", "ok", name)


def _check_repository(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    ledger = Ledger.open(loaded.root, config.run, config.git)
    path, position = skill_path(loaded, ledger.root), ledger.sync()
    where = f"pushed to {ledger.remote}" if ledger.remote else "kept local (no remote)"
    text = f"base {ledger.base}; steps are {where}"
    yield _found("git", text, lambda: ledger.preflight(position))

    committed, file = ledger.read(position.base, path), loaded.root / config.skill
    if ledger.read(position.head, path) is None:
        if file.exists():  # else it is said of the skill itself
            text = f"{path} is not committed on {ledger.base}: git add {path} && git commit"
            yield mend("git", text)
    elif committed is not None and is_lfs_pointer(committed) and file.is_file():
        if not is_lfs_pointer(file.read_text(encoding="utf-8", errors="replace")):
            text = f"{path} is kept by Git LFS on {ledger.base}: training needs it in git"
            yield mend("git", f"{text}\n{LFS_REMEDY}")
    elif committed is not None and file.is_file() and committed.encode() != file.read_bytes():
        text = f"{path} here differs from {ledger.base}: training starts from what is committed"
        yield Finding("git", "warning", text)
    state = RunFolder(config.run).read_state(partial(ledger.read, position.head))
    if state is not None:
        measured = state.current.measurement
        now = f"{plural(state.step, 'step')} done, now at {score_text(measured.score, measured.n)}"
        yield Finding("run", "ok", now)
