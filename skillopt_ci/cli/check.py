"""``skillopt-ci check``: is everything ready to train? Files first, then the machine."""

import asyncio
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from skillopt_ci import __version__
from skillopt_ci.agents.cli_agents import agent_environ, agent_program, lacks_key
from skillopt_ci.aio import map_ordered
from skillopt_ci.cli import build
from skillopt_ci.cli.findings import Finding, ask_models, failed, print_findings, up_to_error
from skillopt_ci.cli.options import Globals, command, print_json
from skillopt_ci.cli.read import RunReader, open_reader
from skillopt_ci.cli.scaffold import existing_skill, slug, unchanged_examples
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.models import ModelRole
from skillopt_ci.config.rollout import ExternalConfig
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.confinement import current
from skillopt_ci.environments.api import require
from skillopt_ci.errors import ExitCode, SkilloptError
from skillopt_ci.estimate.estimate import budgeted
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import toplevel
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.model.access import api_key, headers_of, required_variables, resolved_key_values
from skillopt_ci.model.budget import Meter, tariff_of, tariffs
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import can_be_hidden
from skillopt_ci.report.view import RunView
from skillopt_ci.rollout.computer_pool import ComputerPool, open_computer_pool
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.graders import TaskScorers, check_scorers
from skillopt_ci.scorers.base import GraderError
from skillopt_ci.scorers.code import Functions
from skillopt_ci.skill.validation import problems, seen_path
from skillopt_ci.stats import wilson
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.text import plural, score_text
from skillopt_ci.training import plan
from skillopt_ci.training.fingerprint import Unasked
from skillopt_ci.training.run_context import open_solver, runner_parts
from skillopt_ci.training.state import find_checkout
from skillopt_ci.training.trainer import NextWork, upcoming
from skillopt_ci.util import is_lfs_pointer, read_text, sha256_of_json

#: From this many tasks on, the 95 % interval of a score is no wider than ±0.2.
_ENOUGH = 20
#: Fewer training tasks than this teach their own answers rather than a rule.
_ENOUGH_TO_LEARN = 10
_PLENTY = 100
#: A run's graders are mostly one and the same; where each task has its own, these stand for all.
_MOST_TRIED = 16
#: The first git that merges without a checkout, as is needed once base changes the skill.
_MERGING_GIT = (2, 38)
_NOT_FOUND = (126, 127)
#: What the check ends with once no step is left: a step would only say so.
_AFTER_TRAINING: dict[NextWork, tuple[str, str]] = {
    "finish": ("Ready to test the skills; every step is done", "finish"),
    "done": ("Nothing is left to train", "report"),
    "nothing_to_learn": ("The skill solves every selection task: nothing to train", "status"),
}


@command()
@click.option("--probe", is_flag=True, help="Also ask each model one small question.")
@click.option("--files", is_flag=True, help="Check only the files, not git, keys and programs.")
@click.option("--github", is_flag=True, help="Also ask GitHub whether Actions can train here.")
def check_command(settings: Globals, probe: bool, files: bool, github: bool) -> ExitCode:
    """Check that everything is ready to train, and say what to fix.

    First the files: configuration, tasks, scorers, skill. Then the machine: git and whether the
    remote would accept a push, sandbox or containers, graders (each tried on an empty answer),
    keys, prices and the agent's program. Calls no model unless you add --probe, changes nothing and
    prints no secret. Exits with 2 if you have something to fix, with 5 if only a server failed.
    """
    if files and probe:
        raise click.UsageError("--files asks no model: leave out --files or --probe")
    told = check_run(settings, probe=probe, files=files)
    if github:
        told += up_to_error("github", _check_github(settings))
    # what the user can mend (exit code 2) goes before what a server did (5)
    code = min((one.exit_code for one in told if one.level == "error"), default=ExitCode.DONE)
    if settings.json:
        rows = [{"part": one.part, "level": one.level, "text": one.text} for one in told]
        print_json({"ready": code is ExitCode.DONE, "findings": rows})
    else:
        print_findings(told, settings, files=files)
    return code


def check_run(settings: Globals, *, probe: bool = False, files: bool = False) -> list[Finding]:
    """Everything there is to say of the run; with ``probe``, how its models answer too."""
    environ = settings.environ
    try:
        loaded = build.load_configured(settings)
    except SkilloptError as error:
        return [failed("config", error)]
    config, root = loaded.config, loaded.root
    told = [
        Finding(
            "config", "ok", f"{os.path.relpath(loaded.file, settings.cwd)}: run {config.run!r}"
        ),
        *(Finding("config", "warning", warning) for warning in loaded.warnings),
    ]

    def check(part: str, findings: Iterable[Finding]) -> None:
        told.extend(up_to_error(part, findings))

    # Files and configuration: nothing is started but an environment, and nobody is asked.
    tasks, environment = None, None
    try:
        tasks, environment = build.read_tasks(loaded, environ)
    except SkilloptError as error:
        told.append(failed("tasks", error))
    if tasks is not None:
        reader = None
        with suppress(SkilloptError):  # not begun, or no repository
            reader = None if files else open_reader(settings).start()[0]
        check("tasks", _check_tasks(loaded, tasks, reader))
    if (folder := config.prompts) is not None:
        check("prompts", _ok("prompts", folder, lambda: Prompts.load(root / folder)))
    graded = environment is not None and environment.grades
    if graded:
        told.append(Finding("scorers", "ok", "the environment grades"))
    elif tasks is not None:
        grade = partial(check_scorers, tasks, config.scorer, root=root, environ=environ)
        check("scorers", _ok("scorers", "every task has one that can grade it", grade))
    meter = Meter(step=config.budget.step, run=config.budget.run)
    check("budget", _ok("budget", "", lambda: meter.require_prices(tariffs(config.asked_roles))))
    check("skill", _check_skill(loaded))

    if files:
        return told

    # The machine: git and its remote, computers, programs, keys.
    check("git", _check_repository(loaded))
    wrong = any(one.part == "scorers" and one.level == "error" for one in told)
    check("computer", _check_computers(loaded, tasks, environ, try_graders=not (graded or wrong)))
    if tasks is not None:
        check("programs", _check_programs(loaded, tasks, environment, environ))
    for name, role in config.asked_roles.items():
        check(f"model.{name}", _check_model(name, role, root, environ, asked=probe))
    if not all(map(can_be_hidden, resolved_key_values(config.model, environ, root))):
        text = "a key is too short or too simple to be redacted wherever it appears"
        told.append(Finding("secrets", "warning", f"{text}; use a longer one"))
    if probe:
        told += asyncio.run(ask_models(config.asked_roles, environ, root, settings.redact))
    return told


def _check_github(settings: Globals) -> Iterator[Finding]:
    loaded, environ = build.load_configured(settings), dict(settings.environ)
    config, remote = loaded.config, Git(loaded.root).attempt("remote", "get-url", "origin").text
    if found := re.search(r"([\w.-]+/[\w.-]+?)(\.git)?/?$", remote):
        environ.setdefault("GITHUB_REPOSITORY", found[1])
    # Imported late: PyGithub takes half a second.
    from skillopt_ci.github.client import connect  # noqa: PLC0415
    from skillopt_ci.github.settings import setup_of  # noqa: PLC0415

    client = connect(environ, redact=settings.redact)
    keys, signed = required_variables(config.model.roles), config.git.commits == "api"
    for level, text in setup_of(client, keys, config.run, signed=signed):
        yield Finding("github", level, text)


def _ok(part: str, text: str, check: Callable[[], object]) -> Iterator[Finding]:
    check()
    if text:
        yield Finding(part, "ok", text)


def _check_tasks(loaded: Loaded, tasks: Splits, reader: RunReader | None) -> Iterator[Finding]:
    config, count = loaded.config, len(tasks.selection)
    if reader is None:
        with suppress(OSError, SkilloptError):  # the checks of skill and prompts say it
            prompts = Prompts.load(None if config.prompts is None else loaded.root / config.prompts)
            config = budgeted(config, tasks, prompts, read_text(loaded.root / config.skill))
    config, tasks = plan.planned(config, tasks, None if reader is None else reader.state)
    sizes, test = plan.sizes_of(config, tasks, reader.history if reader else ()), len(tasks.test)
    told = f"{sizes.train} train, {count} selection, {test} test; no task is in two splits"
    yield Finding("tasks", "ok", told)
    for text in _few_tasks(sizes.train, sizes.selection, test):
        yield Finding("tasks", "warning", text)
    if examples := unchanged_examples(loaded.root, loaded.config.tasks):
        text = f"{', '.join(examples)} still hold the examples of `init`: put your own tasks there"
        yield Finding("tasks", "warning", text)
    more = config.optimizer.learning_rate > loaded.config.optimizer.learning_rate
    yield from up_to_error("plan", _check_plan(config, sizes, count, reader, more_edits=more))


def _check_plan(
    config: Config, sizes: plan.Sizes, selection: int, reader: RunReader | None, *, more_edits: bool
) -> Iterator[Finding]:
    state, history = (reader.state, reader.history) if reader else (None, ())
    skill = (reader and reader.folder.read(reader.skill_path)) or ""
    edited = state is not None and RunView(state, history, skill=skill).unscored
    last = plan.last_step(config, sizes, state, history, reopened=edited)
    whole = plan.total_steps(sizes.train, config.train, state)
    steps, epochs = plural(last, "step"), plural(config.train.num_epochs, "epoch")
    told = f"{steps} in {epochs}" if last == whole else f"about {steps}, as the budget allows now"
    then = None
    if state is not None:
        coming = upcoming(config, sizes, state, history, edited=edited)
        told = f"{coming.why or told}, {state.step} done"
        then = _AFTER_TRAINING.get(coming.work)
        if coming.work == "epoch_end" and coming.scheduled:
            then = (f"Ready for the end of epoch {coming.epoch_end}", "slow-update")
    if sizes.selection < selection:
        told += f"; candidates are compared on {sizes.selection} of the {selection} selection tasks"
    if more_edits:
        told += f"; a step makes up to {plural(config.optimizer.learning_rate, 'edit')}"
    first = sizes.calls * sizes.selection + plan.most_calls(config, sizes)
    tests, calls = plan.final_test_calls(config, sizes), config.budget.run.calls
    if state is None and plan.calls_left(config, sizes, None) < first:
        least = ", one step and the final tests" if tests else " and one step"
        lower = "train.batch_size or evaluation.test_env_num" if tests else "train.batch_size"
        text = f"the first score{least} may take {first + tests:.0f} calls, more than the budget"
        yield Finding("plan", "warning", f"{text} allows\nRaise budget.run, or lower {lower}.")
    else:
        yield Finding("plan", "ok", told, then=then)
    if tests and calls is not None and tests >= calls:
        text = f"the final tests take about {tests:.0f} calls, more than the budget allows\n"
        yield Finding("plan", "warning", f"{text}Raise budget.run, or set evaluation.test_env_num.")


def _few_tasks(train: int, selection: int, test: int) -> Iterator[str]:
    def known_to(tasks: int) -> str:
        # half of the 95 % interval around a score of 0.5, where it is widest
        return f"±{wilson(0.5, tasks).high - 0.5:.2f}"

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
        yield f"no test tasks: nothing checks the score on unseen tasks; add {_ENOUGH} or more"
    elif test < _ENOUGH:
        yield f"only {plural(test, 'test task')}: the final score is known to {known_to(test)}"


def _check_skill(loaded: Loaded) -> Iterator[Finding]:
    name, file = loaded.config.skill, loaded.root / loaded.config.skill
    try:
        text = read_text(file)
    except OSError as error:
        if build.not_checked_out(loaded.root, file):
            text = f"{name} is in git, but not in this checkout: training reads it from the commit"
            yield Finding("skill", "warning", text)
        else:
            other = None if file.exists() else existing_skill(loaded.root)
            meant = "" if other is None else f"\nDid you mean {other}?"
            yield Finding("skill", "error", f"{name}: {error.strerror}{meant}")
        return
    seen = seen_path(loaded.root, name, toplevel(loaded.root))
    faults = problems(text, seen)
    for problem in faults:
        line = "" if problem.line is None else f":{problem.line}"
        told = f"{name}{line}: {problem.message}"
        if problem.message.startswith("SKILL.md must start with YAML frontmatter"):
            told += (
                "\nAgents load it by its first lines. Begin the file with these:\n---\n"
                f"name: {slug(seen.parent.name or loaded.config.run)}\n"
                "description: what for, and when\n---"
            )
        yield Finding("skill", problem.severity, told)
    if not faults:
        yield Finding("skill", "ok", name)


def check_git(version: str) -> Finding:
    numbers = re.search(r"(\d+)\.(\d+)", version)
    known = _MERGING_GIT if numbers is None else tuple(map(int, numbers.groups()))
    if known < (2, 29):  # the first that fetches without a trace of its own, as the ledger does
        return Finding("git", "error", f"{version} is too old\nInstall git 2.29 or newer.")
    if known < _MERGING_GIT:
        text = f"{version} cannot merge a change to the skill on the base branch"
        return Finding("git", "warning", f"{text}: install git 2.38 or newer")
    return Finding("git", "ok", version)


def _check_repository(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    python = f"Python {platform.python_version()} on {platform.platform(terse=True)}"
    yield Finding("program", "ok", f"skillopt-ci {__version__}, {python}")
    yield check_git(Git(loaded.root).run("--version").text)
    ledger = Ledger.open(loaded.root, config.run, config.git)
    path, position = build.skill_path(loaded, ledger.git.folder), ledger.sync()
    committed, file = ledger.read(position.base, path), loaded.root / config.skill
    if committed is not None and not is_lfs_pointer(committed) and file.is_file():
        here = file.read_text(encoding="utf-8", errors="replace")
        if committed.splitlines() != here.splitlines():  # git may end lines otherwise here
            base = f"{ledger.remote}/{ledger.base}" if ledger.remote else ledger.base
            text = f"{path} here differs from {base}: training starts from what is there"
            yield Finding("git", "warning", text)
    ledger.preflight(position)
    if config.git.commits == "api" and ledger.remote is None:
        yield Finding("git", "error", "git.commits: api needs a remote on GitHub")
    where = f"pushed to {ledger.remote}" if ledger.remote else "kept local (no remote)"
    yield Finding("git", "ok", f"base {ledger.base}; steps are {where}")
    known = position.tip or committed is not None or file.exists()  # else the part `skill` says so
    # raises what would stop the next step
    if known and (state := find_checkout(ledger, path, position).state) is not None:
        measured = state.current.measurement
        now = f"{plural(state.step, 'step')} done, now at {score_text(measured.score, measured.n)}"
        yield Finding("run", "ok", now)


def _check_computers(
    loaded: Loaded, tasks: Splits | None, environ: Mapping[str, str], *, try_graders: bool
) -> Iterator[Finding]:
    config, root = loaded.config, loaded.root
    pool = open_computer_pool(config, root, environ)
    if tasks is not None:
        build.check_computers(tasks, config, pool)
    if pool is not None:
        pool.computers.check()
        yield Finding("computer", "ok", f"{pool.computers.name} works here")
        if pool.computers.caveat:
            yield Finding("computer", "warning", pool.computers.caveat)
    if tasks is not None and try_graders:
        yield from _try_graders(tasks, loaded, environ, pool)
    solver = config.rollout.solver
    if pool is None or not isinstance(solver, ExternalConfig):
        return
    yield asyncio.run(_start_agent(solver, pool, root.resolve()))
    if solver.agent == "command":
        return  # a program of one's own may need neither key nor network
    if names := lacks_key(solver, environ):
        text = f"it has no key: none of {', '.join(names)} is set"
        yield Finding("agent", "warning", text, blocks=True)
    if pool.base.network == "none" and pool.computers.name != "unconfined":
        text = "it can reach no server: rollout.computer.network is none\nSet it to open."
        yield Finding("agent", "warning", text, blocks=True)


def _try_graders(
    splits: Splits, loaded: Loaded, environ: Mapping[str, str], pool: ComputerPool | None
) -> Iterator[Finding]:
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
            functions=functions,
            pool=pool,
            limits=loaded.config.rollout.limits,
        )
        graders = scorers.programs(splits.all)
        tried = map_ordered(fault, graders[:_MOST_TRIED], limit=4)
        faults = [*filter(None, asyncio.run(tried))]
    if faults:
        yield Finding(
            "scorers",
            "error",
            f"{faults[0]}\nA grader must judge any work, even an empty submission: "
            "otherwise its own failures would look like the work's, which score 0.",
        )
    elif graders:
        some = "" if len(graders) <= _MOST_TRIED else f"{_MOST_TRIED} of "
        text = f"{some}{plural(len(graders), 'grader')} tried on an empty submission"
        yield Finding("scorers", "ok", text)


async def _start_agent(solver: ExternalConfig, pool: ComputerPool, root: Path) -> Finding:
    """Whether the agent's program is on the computer, in which version; it gets no key."""
    known, program = solver.agent != "command", agent_program(solver, root)
    # a user's own program may not know --version
    asked = (program, "--version") if known else ("sh", "-c", 'command -v "$1"', "sh", program)
    spec = pool.base
    if pool.computers.name == "unconfined" and (file := Path(program)).is_file():
        # a command that is run by its name sees its own file; `command -v` has to be shown it
        spec = replace(spec, readable=(*spec.readable, file.parent, file.resolve()))
    async with pool.computers.open(spec) as computer:
        # a first start may unpack things
        result = await computer.run(asked, timeout=60.0, environ=agent_environ(solver, root, {}))
    if result.exit_code and (not known or result.exit_code in _NOT_FOUND):
        return Finding(
            "agent",
            "error",
            f"{program} is not on the task's computer ({pool.computers.name})\nIn a container, set "
            "rollout.computer.image to one that has it; else install it below /usr, or set "
            "rollout.solver.command to its full path, its folder in rollout.computer.readable.",
        )
    said = f"{result.stdout}\n{result.stderr}".strip().partition("\n")[0].strip()[:120]
    if known and (result.exit_code or result.timed_out):
        return Finding("agent", "error", f"{program} --version failed: {said}")
    return Finding("agent", "ok", f"{program}: {said}" if known else f"{said} is there")


def _check_programs(
    loaded: Loaded, tasks: Splits, environment: Environment | None, environ: Mapping[str, str]
) -> Iterator[Finding]:
    starts, left = build.unconfined_programs(loaded.config, tasks.all, environment)
    if left:
        yield Finding(
            "programs",
            "warning",
            f"not kept from secrets: {'; '.join(left)}\nThese can read your files and what other "
            "programs of yours hold, such as the shell that exported a key. Pull requests are not "
            "evaluated here unless `rollout.programs_can_read_secrets` is set.",
        )
    elif starts:
        kind = {"sandbox": "in a sandbox", "user": "as another user"}[current().kind]
        yield Finding("programs", "ok", f"run {kind}, away from keys, tokens and .git")
    if environment is not None:
        config = loaded.config.model_copy(update={"prompts": None})  # the folder is checked already
        parts = runner_parts(config, loaded.root, environ, environment)
        open_solver(parts, Unasked(), Functions(environ))  # raises what a step would
        sha256_of_json(parts.rollout_facts)  # does so, too, if identity() cannot be used
    if loaded.config.rollout.executor.type == "ray":
        require("ray", "ray", "rollout.executor")


def _check_model(
    name: str, role: ModelRole, root: Path, environ: Mapping[str, str], *, asked: bool
) -> Iterator[Finding]:
    part, price, where = f"model.{name}", tariff_of(role), str(role.provider)
    if role.provider == "simulated":
        from skillopt_ci.demo.client import find_model  # noqa: PLC0415 - real models need none

        find_model(role.model, f"{part}.model")
    elif role.preset.protocol == "command":
        program = role.program[0].replace("{root}", str(root.resolve()))
        path = shutil.which(program, path=environ.get("PATH", os.defpath))
        if path is None:
            remedy = f"Install it so that it is in PATH, or name its full path in {part}.command."
            yield Finding(part, "error", f"the program {program} is not found\n{remedy}")
            return
        where = f"{where}: {path}"
    if role.preset.protocol == "messages" or (role.azure and role.azure.auth != "key"):
        # other packages than this one provide `azure`, too
        require("azure.identity" if role.azure else "anthropic", role.provider, part)
    try:
        api_key(part, role, environ, root)
        headers_of(part, role, environ)
    except SkilloptError as error:
        # a check of a fork's pull request has no keys, and needs none
        if not asked:
            yield Finding(part, "warning", str(error), blocks=True)
        return
    no_key = "" if role.preset.protocol == "command" else "no key"  # an agent may be logged in
    key = f"key in {role.key_variable}" if environ.get(role.key_variable or "") else no_key
    if role.api_key_file:
        key = f"key in the file {role.api_key_file}"
    known = [where, key, price.text if price.known else ""]
    about = [price.text] if role.provider == "simulated" else known
    yield Finding(part, "ok", f"{role.model} ({', '.join(filter(None, about))})")
    if not price.known:
        yield Finding(
            part, "warning", f"no price is known, so its cost will be unknown; set {part}.price"
        )
