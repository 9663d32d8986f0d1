"""``skillopt-ci validate``: find out before anything is paid for."""

import asyncio
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import click

from skillopt_ci import __version__
from skillopt_ci.agents.cli_agents import agent_environ, agent_program, visible_names
from skillopt_ci.aio import map_ordered
from skillopt_ci.cli.build import (
    check_places,
    learn_secrets,
    load_configured,
    read_tasks,
    skill_path,
    unconfined_programs,
)
from skillopt_ci.cli.init import existing_skill, slug, unchanged_examples
from skillopt_ci.cli.options import Globals, global_options, wants_colour
from skillopt_ci.computer.computer import CommandResult, Network
from skillopt_ci.computer.docker import call_engine, connect
from skillopt_ci.computer.sandbox import find_programs
from skillopt_ci.computer.sandbox_limits import usable_hierarchies
from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.config.rollout import ExternalConfig
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.confinement import current
from skillopt_ci.errors import (
    ComputerFailure,
    ComputerUnavailable,
    ExitCode,
    InfrastructureError,
    SkilloptError,
)
from skillopt_ci.git.process import Git
from skillopt_ci.ledger.folder import RunFolder
from skillopt_ci.ledger.ledger import Ledger, Position
from skillopt_ci.messages import Message
from skillopt_ci.model.budget import Meter, Tariff, tariff_of
from skillopt_ci.model.build import open_models
from skillopt_ci.model.cache import base_url_of
from skillopt_ci.model.keys import api_key, key_variable, resolved_key_values
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, Role
from skillopt_ci.program import visible_environ
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import Redact, can_be_hidden
from skillopt_ci.rollout.computer_pool import ComputerPool, open_computer_pool
from skillopt_ci.rollout.environment import Environment
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.sanitize import harmless
from skillopt_ci.scorers.base import GraderError
from skillopt_ci.scorers.build import check_scorers
from skillopt_ci.scorers.code import Functions
from skillopt_ci.skill.validation import Problem, problems
from skillopt_ci.stats import wilson
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.tasks.task import Splits, Task
from skillopt_ci.text import cost_text, plural, score_text
from skillopt_ci.training import replies
from skillopt_ci.training.plan import total_steps
from skillopt_ci.training.replies import WireError, parse_ranking
from skillopt_ci.training.run_context import first

# Whether there are tasks enough to learn from and to judge by, in words.

#: From so many on the 95 % interval of a score is no wider than ±0.2.
ENOUGH = 20
#: Fewer training tasks than this teach their own answers rather than a rule.
ENOUGH_TO_LEARN = 10
PLENTY = 100


def few_tasks(train: int, selection: int, test: int) -> Iterator[str]:
    """Say of each split that is too small what that does, and how many tasks would do."""
    if train < ENOUGH_TO_LEARN:
        yield (
            f"only {plural(train, 'training task')}: what is learned will fit these and little "
            f"else; {ENOUGH_TO_LEARN} or more of different kinds show what they have in common"
        )
    if selection < ENOUGH:
        yield (
            f"only {plural(selection, 'selection task')}: with so few, the gate decides largely by "
            f"chance; {_known_to(selection)}. `skillopt-ci calibrate` measures it for your tasks"
        )
    if test == 0:
        yield (
            "there are no test tasks: the final score will not be checked on unseen ones; give "
            f"tasks.test a file with {ENOUGH} or more"
        )
    elif test < ENOUGH:
        yield (
            f"only {plural(test, 'test task')}: the final score will be known to "
            f"±{half_width(test):.2f} or so (95 %)"
        )


def _known_to(tasks: int) -> str:
    return (
        f"a score of 0.5 is known to ±{half_width(tasks):.2f} (95 %), with {ENOUGH} tasks to "
        f"±{half_width(ENOUGH):.2f}, with {PLENTY} to ±{half_width(PLENTY):.2f}"
    )


def half_width(tasks: int) -> float:
    """Half of the 95 % interval around a score of 0.5, where it is widest."""
    interval = wilson(0.5, tasks)
    return (interval.high - interval.low) / 2


# Check the parts of a run, each by itself, so that one look finds as much as possible.

#: A run's graders are mostly one and the same; where each task has its own, these stand for all.
_MOST_TRIED = 16
_TRIED_AT_A_TIME = 4
_ANY_WORK = (
    "A grader must give a verdict on any work, none at all included: otherwise its own failure "
    "cannot be told from one that the work causes, which scores 0."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``exit_code`` is what an error of its kind ends a command with."""

    part: str
    level: Literal["ok", "warning", "error"]
    text: str
    exit_code: ExitCode = ExitCode.DONE
    blocks: bool = False
    """A warning that validation gets over and a training step does not: a key that is missing."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found; ``loaded`` is None when the configuration itself cannot be used."""

    loaded: Loaded | None
    findings: tuple[Finding, ...]


def failed(part: str, error: SkilloptError) -> Finding:
    """The finding that ``error`` amounts to."""
    return Finding(part, "error", str(error), error.exit_code)


def examine(settings: Globals) -> Examined:
    """Check every part of the run that the configuration describes; no model is called."""
    try:
        loaded = load_configured(settings)
    except SkilloptError as error:
        return Examined(None, (failed("config", error),))
    learn_secrets(settings.redact, loaded, settings.environ)
    found = [
        *_config(loaded, settings),
        *_examine_tasks(loaded, settings.environ),
        *_prompts(loaded),
        *_models(loaded, settings.environ),
        *_skill(loaded),
        *_repository(loaded),
    ]
    return Examined(loaded, tuple(found))


def _config(loaded: Loaded, settings: Globals) -> Iterator[Finding]:
    yield Finding("config", "ok", f"{settings.config}: run {loaded.config.run!r}")
    for warning in loaded.warnings:
        yield Finding("config", "warning", warning)


def _examine_tasks(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        splits, environment = read_tasks(loaded, environ)
    except SkilloptError as error:
        yield failed("tasks", error)
        return
    yield from _sizes(splits, loaded.config)
    examples = unchanged_examples(loaded.root)
    if examples:
        text = f"{', '.join(examples)} still hold the examples of `init`: put your own tasks there"
        yield Finding("tasks", "warning", text)
    scorers: tuple[Finding, ...] = (Finding("scorers", "ok", "the environment grades"),)
    computers = tuple(_computers(splits, loaded, environ))
    if environment is None or not environment.grades:
        scorers = tuple(_scorers(splits, loaded, environ))
        if not any(one.level == "error" for one in (*scorers, *computers)):
            scorers += tuple(_tried(splits, loaded, environ))
    yield from scorers
    yield from computers
    yield from _programs(splits, loaded, environment)


def _programs(splits: Splits, loaded: Loaded, environment: Environment | None) -> Iterator[Finding]:
    """What keeps the programs of this run from our secrets, and what is left where nothing does."""
    tasks = (*splits.train, *splits.selection, *splits.test)
    starts, left = unconfined_programs(loaded.config, tasks, environment)
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


def _scorers(splits: Splits, loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        check_scorers(splits, loaded.config.scorer, root=loaded.root, environ=environ)
    except SkilloptError as error:
        yield failed("scorers", error)
    else:
        yield Finding("scorers", "ok", "every task has one that can grade it")


def _tried(splits: Splits, loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the scorers that are programs can grade an empty submission."""
    config = loaded.config
    places = open_computer_pool(config, loaded.root, environ)
    with closing(Functions(environ)) as functions:
        scorers = TaskScorers(
            config.scorer,
            judge=None,
            root=loaded.root,
            environ=environ,
            places=places,
            limits=config.rollout.limits,
            functions=functions,
        )
        tried = scorers.programs((*splits.train, *splits.selection, *splits.test))
        if not tried:
            return
        trials = map_ordered(
            lambda one: _fault(scorers, *one), tried[:_MOST_TRIED], limit=_TRIED_AT_A_TIME
        )
        outcomes = asyncio.run(trials)
    faults = [fault for fault in outcomes if fault]
    if faults:
        yield Finding("scorers", "error", f"{faults[0]}\n{_ANY_WORK}", ExitCode.USAGE)
    else:
        some = "" if len(tried) <= _MOST_TRIED else f"{_MOST_TRIED} of "
        text = f"{some}{plural(len(tried), 'grader')} tried on an empty submission"
        yield Finding("scorers", "ok", text)


async def _fault(scorers: TaskScorers, part: ScorerSpec, task: Task) -> str:
    try:
        await scorers.try_out(part, task)
    except GraderError as error:
        return f"task {task.id!r}, an empty submission: {error.message}"
    return ""


def _computers(splits: Splits, loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        places = open_computer_pool(loaded.config, loaded.root, environ)
        check_places(splits, loaded.config, places)
        if places is not None:
            places.computers.check()
    except SkilloptError as error:
        yield failed("computer", error)
        return
    if places is not None:
        yield Finding("computer", "ok", f"{places.computers.name} works here")
        if places.computers.caveat:
            yield Finding("computer", "warning", places.computers.caveat)


def _sizes(splits: Splits, config: Config) -> Iterator[Finding]:
    counts = [("train", splits.train), ("selection", splits.selection), ("test", splits.test)]
    sizes = ", ".join(f"{len(tasks)} {name}" for name, tasks in counts)
    yield Finding("tasks", "ok", f"{sizes}; no task stands in two splits")
    selection = len(first(splits.selection, config.evaluation.sel_env_num))
    for text in few_tasks(len(splits.train), selection, len(splits.test)):
        yield Finding("tasks", "warning", text)
    try:
        steps = total_steps(len(splits.train), config.train)
    except SkilloptError as error:
        yield failed("plan", error)
    else:
        epochs = plural(config.train.num_epochs, "epoch")
        yield Finding("plan", "ok", f"{plural(steps, 'step')} in {epochs}")


def _prompts(loaded: Loaded) -> Iterator[Finding]:
    folder = loaded.config.prompts
    if folder is None:
        return
    try:
        Prompts.load(loaded.root / folder)
    except SkilloptError as error:
        yield failed("prompts", error)
    else:
        yield Finding("prompts", "ok", folder)


def _models(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    config = loaded.config
    try:
        Meter(step=config.budget.step, run=config.budget.run).require_prices(config.model)
    except SkilloptError as error:
        yield failed("budget", error)
    models = config.model
    roles = (("target", models.target), ("optimizer", models.optimizer), ("judge", models.judge))
    for name, role in roles:
        if role is None:
            continue
        try:
            api_key(f"model.{name}", role, environ, loaded.root)
        except SkilloptError as error:
            # whoever checks a pull request from a fork has no keys, and needs none
            yield Finding(f"model.{name}", "warning", str(error), blocks=True)
        else:
            yield _model(name, role)


def _model(name: str, role: ModelRole) -> Finding:
    if role.provider == "simulated":
        # Imported late: real models need none of it.
        from skillopt_ci.demo.client import find_model  # noqa: PLC0415

        try:
            find_model(role.model, f"model.{name}.model")
        except SkilloptError as error:
            return failed(f"model.{name}", error)
    return Finding(f"model.{name}", "ok", f"{role.model} ({role.provider})")


def _skill(loaded: Loaded) -> Iterator[Finding]:
    name = loaded.config.skill
    file = loaded.root / name
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        other = existing_skill(loaded.root)
        meant = "" if other is None else f"\nDid you mean {other}?"
        yield Finding("skill", "error", f"{name}: there is no such file{meant}", ExitCode.USAGE)
        return
    except (OSError, UnicodeDecodeError) as error:
        yield Finding("skill", "error", f"{name}: {error}", ExitCode.USAGE)
        return
    found = problems(text, file)
    for problem in found:
        line = "" if problem.line is None else f":{problem.line}"
        code = ExitCode.USAGE if problem.severity == "error" else ExitCode.DONE
        text = f"{name}{line}: {problem.message}{_examine_remedy(problem, file)}"
        yield Finding("skill", problem.severity, text, code)
    if not found:
        yield Finding("skill", "ok", name)


def _examine_remedy(problem: Problem, file: Path) -> str:
    if not problem.message.startswith("SKILL.md must start with YAML frontmatter"):
        return ""
    begin = ("---", f"name: {slug(file.parent.name)}", "description: what for, and when", "---")
    return "\nAgents load it by its first lines. Begin the file with these:\n" + "\n".join(begin)


def _repository(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    try:
        ledger = Ledger.open(loaded.root, config.run, config.git)
        path = skill_path(loaded, ledger.root)
        position = ledger.sync()
    except SkilloptError as error:
        yield failed("git", error)
        return
    try:
        ledger.preflight(position)
    except SkilloptError as error:
        yield failed("git", error)
    else:
        where = f"pushed to {ledger.remote}" if ledger.remote else "kept local (no remote)"
        yield Finding("git", "ok", f"base {ledger.base}; steps are {where}")
    try:
        yield from _committed(loaded, ledger, position, path)
        yield from _progress(config, ledger, position)
    except SkilloptError as error:
        yield failed("git", error)


def _committed(loaded: Loaded, ledger: Ledger, position: Position, path: str) -> Iterator[Finding]:
    there = ledger.read(position.base, path)
    file = loaded.root / loaded.config.skill
    if ledger.read(position.head, path) is None:
        if not file.exists():
            return  # said of the skill itself
        text = f"{path} is not committed on {ledger.base}: git add {path} && git commit"
        yield Finding("git", "error", text, ExitCode.USAGE)
    elif there is not None and file.is_file() and there.encode() != file.read_bytes():
        text = f"{path} here differs from {ledger.base}: training starts from what is committed"
        yield Finding("git", "warning", text)


def _progress(config: Config, ledger: Ledger, position: Position) -> Iterator[Finding]:
    state = RunFolder(config.run).read_state(partial(ledger.read, position.head))
    if state is not None:
        measured = state.current.measurement
        now = f"{plural(state.step, 'step')} done, now at {score_text(measured.score, measured.n)}"
        yield Finding("run", "ok", now)


# One small call to each model role, to see that it answers.

_PROBE_QUESTION = (Message("user", "Reply with the single word: ready"),)


async def probe_models(
    models: Models, environ: Mapping[str, str], root: Path = Path()
) -> list[Finding]:
    """Call every role once, whatever became of the others; commands run in ``root``."""
    roles = [Role.TARGET, Role.OPTIMIZER, *([Role.JUDGE] if models.judge else [])]
    meter = Meter(clock=time.monotonic)
    try:
        opened = open_models(
            models, environ, cache_path=None, scope="probe", meter=meter, root=root
        )
        async with opened as client:
            return [await _probe(client, role) for role in roles]
    except SkilloptError as error:
        return [failed("probe", error)]


async def _probe(client: ChatClient, role: Role) -> Finding:
    try:
        reply = await client.complete(ChatRequest(role, "probe", _PROBE_QUESTION))
    except SkilloptError as error:
        return failed(f"model.{role.value}", error)
    tokens = plural(reply.usage.tokens, "token")
    if not reply.text.strip():
        return Finding(
            f"model.{role.value}",
            "warning",
            f"{reply.model} answered with an empty text ({tokens})\nA reasoning model may spend "
            "its tokens before it answers: if "
            f"model.{role.value}.max_output_tokens is set, raise it.",
        )
    return Finding(f"model.{role.value}", "ok", f"{reply.model} answered ({tokens})")


_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
_TEXT_STARTS = 26
_NARROWEST = 30


@click.command()
@click.option("--probe", is_flag=True, help="Also make one small call to each model role.")
@global_options
def validate_command(settings: Globals, probe: bool) -> ExitCode:
    """Check configuration, tasks, scorers, skill and repository; call no model unless --probe.

    Ends with 2 if something has to be mended, and with 5 if only a server or a remote failed.
    """
    examined = examine(settings)
    findings = list(examined.findings)
    if probe and examined.loaded is not None:
        loaded = examined.loaded
        findings += asyncio.run(probe_models(loaded.config.model, settings.environ, loaded.root))
    if settings.json:
        rows = [{"part": f.part, "level": f.level, "text": f.text} for f in findings]
        valid = exit_code(findings) is ExitCode.DONE
        click.echo(json.dumps({"valid": valid, "findings": rows}))
    else:
        print_findings(findings, settings)
    return exit_code(findings)


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """What the command ends with: the user's own errors go before those of the world."""
    codes = {finding.exit_code for finding in findings}
    return min(codes - {ExitCode.DONE}, default=ExitCode.DONE)


def print_findings(findings: Sequence[Finding], settings: Globals) -> None:
    """Print a line for each finding, coloured by its level, and a conclusion."""
    colour, width = wants_colour(sys.stdout, settings.environ), _text_width()
    for finding in findings:
        if settings.verbosity >= 0 or finding.level != "ok":
            mark = f"{finding.level:<7}"
            mark = click.style(mark, fg=_COLOURS[finding.level]) if colour else mark
            text = _folded(harmless(finding.text), width)
            click.echo(f"{mark}  {finding.part:<15}  {text}")
    if settings.verbosity >= 0:
        click.echo(f"\n{_conclusion(findings)}")


def _text_width() -> int | None:
    """Columns for the texts on a terminal; None where lines may be as long as they are."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns - _TEXT_STARTS, _NARROWEST)


def _folded(text: str, width: int | None) -> str:
    lines = text.split("\n")
    if width is not None:
        # paths and addresses stay whole, to be copied
        wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
        lines = [part for line in lines for part in wrapper.wrap(line) or [""]]
    return ("\n" + " " * _TEXT_STARTS).join(lines)


def _conclusion(findings: Sequence[Finding]) -> str:
    levels = [finding.level for finding in findings]
    errors, warnings = levels.count("error"), levels.count("warning")
    if errors:
        return f"{plural(errors, 'error')}, {plural(warnings, 'warning')}."
    besides = f" ({plural(warnings, 'warning')})" if warnings else ""
    blocking = [finding.part for finding in findings if finding.blocks]
    if blocking:
        return f"Nothing else to mend{besides}, but no step can start: see {', '.join(blocking)}."
    return f"Ready to train{besides}: skillopt-ci step"


# Examine one model role: its key, its address, and how it answers one question of the contract.

#: Nobody waits longer for a doctor.
LONGEST_CALL = 120.0
LONGEST_CONNECT = 10.0

_CHECKUP_QUESTION = (
    Message("system", "You rank edits of a document. Reply with one JSON object and nothing else."),
    Message(
        "user",
        "Edits:\n[0] Correct a spelling mistake\n[1] Delete the whole document\n\n"
        'Choose the better one. Reply as {"reasoning": "<one sentence>", "selected_indices": [n]}.',
    ),
)
_STAND_INS = {"target": "simulated-target", "optimizer": "simulated-optimizer"}


@dataclass(frozen=True, slots=True)
class Checkup:
    """What was found of one role. ``seconds`` and what comes after it are None without an answer.

    ``key`` says where the key comes from, never the key.
    """

    role: str
    provider: str
    model: str
    address: str
    key: str
    findings: tuple[Finding, ...]
    price: Tariff
    seconds: float | None = None
    structured: bool | None = None
    usage_reported: bool | None = None


async def check_role(
    name: Literal["target", "optimizer", "judge"],
    config: ModelRole,
    environ: Mapping[str, str],
    root: Path,
    redact: Redact,
) -> Checkup:
    """Examine the role called ``name``; it is asked one question, unless that cannot succeed."""
    part, price = f"model.{name}", tariff_of(config)
    served = config.preset.protocol not in ("command", "simulated")
    found = Checkup(
        role=name,
        provider=config.provider,
        model=config.model,
        address=base_url_of(config) if served else "",
        key=_key_source(config),
        findings=(Finding(part, "ok", _configured(config)), *_price_findings(part, price)),
        price=price,
    )
    try:
        if served:
            api_key(part, config, environ, root)
            await _connect(part, found.address, environ)
        return await _asked(found, name, config, environ, root, redact)
    except SkilloptError as error:
        return replace(found, findings=(*found.findings, failed(part, error)))


def _configured(config: ModelRole) -> str:
    where = "" if config.preset.protocol != "command" else f": {' '.join(config.program)}"
    return f"{config.model} ({config.provider}{where}), {_key_source(config)}"


def _key_source(config: ModelRole) -> str:
    if config.api_key_file:
        return f"key in the file {config.api_key_file}"
    variable = key_variable(config)
    return f"key in {variable}" if variable else "no key"


def _price_findings(part: str, price: Tariff) -> Iterator[Finding]:
    if price.known:
        yield Finding(part, "ok", f"price: {price.text}")
    else:
        text = f"no price is known: cost will be unknown; set {part}.price to know it"
        yield Finding(part, "warning", text)


async def _connect(part: str, address: str, environ: Mapping[str, str]) -> None:
    """Raise InfrastructureError if nobody is at ``address``; a proxy has to be asked instead."""
    url = urlsplit(address)
    proxies = (f"{url.scheme}_proxy", f"{url.scheme.upper()}_PROXY", "ALL_PROXY", "all_proxy")
    if url.hostname is None or any(environ.get(name) for name in proxies):
        return
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        async with asyncio.timeout(LONGEST_CONNECT):
            _, writer = await asyncio.open_connection(url.hostname, port)
    except TimeoutError as error:
        raise _unreachable(part, url.hostname, port, "no answer") from error
    except OSError as error:
        raise _unreachable(part, url.hostname, port, error.strerror or str(error)) from error
    writer.close()


def _unreachable(part: str, host: str, port: int, why: str) -> SkilloptError:
    return InfrastructureError(
        f"{part}: nobody can be reached at {host}, port {port}: {why}",
        hint=f"Check {part}.base_url, the network and its proxy, and that the server runs.",
    )


async def _asked(
    found: Checkup,
    name: str,
    config: ModelRole,
    environ: Mapping[str, str],
    root: Path,
    redact: Redact,
) -> Checkup:
    role = Role(name)
    impatient = config.model_copy(
        update={"retries": min(1, config.retries), "timeout": min(LONGEST_CALL, config.timeout)}
    )
    request = ChatRequest(role, "doctor", _CHECKUP_QUESTION, reply_schema=replies.ranking())
    opened = open_models(
        _alone(role, impatient),
        environ,
        cache_path=None,
        scope="doctor",
        meter=Meter(clock=time.monotonic),
        root=root,
        redact=redact,
    )
    async with opened as client:
        began = time.monotonic()
        reply = await client.complete(request)
        seconds = time.monotonic() - began
    return _judged(found, reply, seconds)


def _alone(role: Role, config: ModelRole) -> Models:
    """Models of which only ``role`` is a real one: others' mistakes are theirs."""
    others = {
        name: ModelRole(provider="simulated", model=model) for name, model in _STAND_INS.items()
    }
    return Models(**{**others, role.value: config})


def _judged(found: Checkup, reply: ChatReply, seconds: float) -> Checkup:
    part, usage = f"model.{found.role}", reply.usage
    used = f"{plural(usage.tokens, 'token')}, {cost_text(usage.cost_usd)}"
    findings = [Finding(part, "ok", f"{reply.model} answered in {seconds:.1f} s ({used})")]
    structured = found.provider == "simulated" or _fits(reply.text)
    if not structured:
        findings.append(_unfit(part, found.role, reply))
    if usage.estimated:
        text = "the server reports no usage: tokens are counted from the texts"
        findings.append(Finding(part, "warning", text))
    return replace(
        found,
        findings=(*found.findings, *findings),
        seconds=seconds,
        structured=structured,
        usage_reported=not usage.estimated,
    )


def _fits(text: str) -> bool:
    try:
        parse_ranking(text, 2, 1)
    except WireError:
        return False
    return True


def _unfit(part: str, role: str, reply: ChatReply) -> Finding:
    why = (
        "was cut off at the token limit: raise max_output_tokens"
        if reply.finish_reason == "length"
        else "was not the JSON object that was asked for"
    )
    if role == "target":
        # what the target must be able to write, its tasks and scorers say
        return Finding(part, "warning", f"its answer {why}; only tasks that want JSON need it")
    hint = "Choose a model that follows instructions, or see structured_output."
    return Finding(part, "error", f"its answer {why}\n{hint}", ExitCode.USAGE)


# Examine the tools that a configuration needs: git, programs as models, what confines agents.

#: The first git that fetches without a trace of its own, as the ledger does.
_OLDEST_GIT = (2, 29)
_TOOLS_PATIENCE = 30


def git_finding(folder: Path) -> Finding:
    """Whether there is a git, and one that knows what the ledger asks of it."""
    try:
        return judged_git(Git(folder).text("--version"))
    except SkilloptError as error:
        return failed("git", error)


def judged_git(said: str) -> Finding:
    """What to think of a git that says this of its version."""
    numbers = re.search(r"(\d+)\.(\d+)", said)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= _OLDEST_GIT:
        return Finding("git", "ok", said)
    oldest = ".".join(map(str, _OLDEST_GIT))
    text = f"{said} is too old\nInstall git {oldest} or newer."
    return Finding("git", "error", text, ExitCode.USAGE)


def model_programs(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The programs that stand for models: where they are, and the versions of those we know."""
    models = loaded.config.model
    roles = (("target", models.target), ("optimizer", models.optimizer), ("judge", models.judge))
    for name, role in roles:
        if role is not None and role.preset.protocol == "command":
            yield _model_program(f"model.{name}", role, loaded.root, environ)


def _model_program(part: str, role: ModelRole, root: Path, environ: Mapping[str, str]) -> Finding:
    program = role.program[0].replace("{root}", str(root.resolve()))
    path = shutil.which(program, path=environ.get("PATH", os.defpath))
    if path is None:
        what = f"the program {program} is not found"
        remedy = f"Install it so that it is in PATH, or name its full path in {part}.command."
        return Finding(part, "error", f"{what}\n{remedy}", ExitCode.USAGE)
    if role.provider == "command":
        return Finding(part, "ok", f"its program is {path}")  # what --version does to it, who knows
    return Finding(part, "ok", f"its program is {path}, version {_version(path, environ)}")


def workplace(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What confines agents, in which version; that it works is found out elsewhere."""
    settings = loaded.config.rollout.computer
    if settings is None:
        return
    try:
        if settings.type == "sandbox":
            yield _sandbox(environ)
        elif settings.type == "docker":
            yield from _docker(loaded, environ)
    except (ComputerUnavailable, ComputerFailure):
        return  # an error on this kind of computer is told already


def _sandbox(environ: Mapping[str, str]) -> Finding:
    path = environ.get("PATH", os.defpath)
    version = _version(find_programs(path)["bwrap"], environ)
    groups = "control groups limit each as a whole"
    if usable_hierarchies() is None:
        groups = "no control groups: each process is limited by itself"
    text = f"{version}, Linux {platform.release()}, user {os.getuid()}; {groups}"
    return Finding("computer", "ok", text)


def _docker(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    engine = connect(environ)
    try:
        facts = call_engine(engine.api.version)
        yield Finding("computer", "ok", f"Docker engine {facts.get('Version', 'of some version')}")
        for image in _images(loaded, environ):
            there = bool(call_engine(engine.api.images, image))
            state = "is there" if there else "is not there: the first attempt pulls it"
            yield Finding("computer", "ok" if there else "warning", f"the image {image} {state}")
    finally:
        engine.close()


def _images(loaded: Loaded, environ: Mapping[str, str]) -> list[str]:
    """The images that the configuration and the tasks of its files name."""
    places = open_computer_pool(loaded.config, loaded.root, environ)
    if places is None:
        return []
    named = {places.base.image: None}
    named.update(
        dict.fromkeys(places.spec(task).image for task in _tools_tasks(loaded.config, loaded))
    )
    return [image for image in named if image]


def _tools_tasks(config: Config, loaded: Loaded) -> tuple[Task, ...]:
    if config.tasks is None:
        return ()
    try:
        splits = load_splits(config.tasks, loaded.root, config.train)
    except SkilloptError:
        return ()  # said of the tasks themselves
    return (*splits.train, *splits.selection, *splits.test)


def _version(program: str, environ: Mapping[str, str]) -> str:
    """What the program says of its version, in one line; it sees no key."""
    try:
        said = subprocess.run(  # noqa: S603  # a program that is used anyway
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TOOLS_PATIENCE,
            env=visible_environ(environ, ()),
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return first_line(said.stdout) or first_line(said.stderr) or "unknown"


def first_line(output: bytes | str) -> str:
    """The first line of ``output`` that says anything, no longer than fits."""
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else output
    return next(filter(None, map(str.strip, text.splitlines())), "")[:120]


# Examine other people's agents where they will work: on a computer of the run's own kind.

_PART = "agent"
#: A first start may unpack things.
_AGENT_CHECK_PATIENCE = 60.0
_NOT_FOUND = (126, 127)


def agent_findings(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the agent's program is on the computer, in which version, with a key and a network.

    The program is started without any key. Nothing is found of a computer that cannot be opened:
    that is told of the computer.
    """
    settings = loaded.config.rollout.solver
    if not isinstance(settings, ExternalConfig):
        return
    places = open_computer_pool(loaded.config, loaded.root, environ)
    if places is None:
        return
    try:
        yield asyncio.run(_program(settings, places, loaded))
    except (ComputerUnavailable, ComputerFailure):
        return
    yield from _reach(settings, places, environ)


async def _program(settings: ExternalConfig, places: ComputerPool, loaded: Loaded) -> Finding:
    root = loaded.root.resolve()
    program = agent_program(settings, root)
    seen = agent_environ(settings, root, {})
    known = settings.agent != "command"
    # what a program of one's own makes of --version, who knows
    asked = (program, "--version") if known else ("sh", "-c", 'command -v "$1"', "sh", program)
    async with places.computers.open(places.base) as computer:
        result = await computer.run(asked, timeout=_AGENT_CHECK_PATIENCE, environ=seen)
    if _absent(result, known=known):
        text = f"{program} is not on the task's computer ({places.computers.name})"
        return Finding(_PART, "error", f"{text}\n{_agent_check_remedy(places)}", ExitCode.USAGE)
    said = first_line(result.stdout) or first_line(result.stderr)
    if known and (result.exit_code or result.timed_out):
        return Finding(_PART, "error", f"{program} --version failed: {said}", ExitCode.USAGE)
    return Finding(_PART, "ok", f"{program}: {said}" if known else f"{said} is there")


def _absent(result: CommandResult, *, known: bool) -> bool:
    return result.exit_code in _NOT_FOUND if known else bool(result.exit_code)


def _agent_check_remedy(places: ComputerPool) -> str:
    if places.computers.name == "docker":
        return "Build an image that has it, and set rollout.computer.image."
    return (
        "Install it below /usr, or set rollout.solver.command to its full path and add its folder "
        "to rollout.computer.readable."
    )


def _reach(
    settings: ExternalConfig, places: ComputerPool, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """What a known agent needs to ask its model; a program of one's own may need neither."""
    if settings.agent == "command":
        return
    names = visible_names(settings)
    if not any(environ.get(name) for name in names):
        text = f"it has no key: none of {', '.join(names) or 'rollout.solver.env'} is set"
        yield Finding(_PART, "warning", text, blocks=True)
    if places.base.network is Network.NONE and places.computers.name != "unconfined":
        text = "it can reach no server: rollout.computer.network is none\nSet it to open."
        yield Finding(_PART, "warning", text, blocks=True)


# ``skillopt-ci doctor``: whether all that a run depends on is there and answers.


@click.command()
@click.option("--offline", is_flag=True, help="Ask no model; check everything else.")
@global_options
def doctor_command(settings: Globals, offline: bool) -> ExitCode:
    """Ask models, tools and prices whether they are ready, and say what to change.

    Each role is asked one small question of the optimizer's contract, a few hundred tokens. git is
    asked whether it may push, without pushing. What confines agents is tried out, and their
    programs are asked for their version. No secret is printed, only where it comes from.
    Ends with 2 if something has to be mended, and with 5 if only a server or a remote failed.
    """
    examined = examine(settings)
    findings = [*_tools(settings), *(one for one in examined.findings if not _of_a_role(one))]
    checkups: list[Checkup] = []
    if examined.loaded is not None:
        findings += workplace(examined.loaded, settings.environ)
        findings += agent_findings(examined.loaded, settings.environ)
        findings += model_programs(examined.loaded, settings.environ)
        findings += _secrets(examined.loaded, settings)
        checkups = [] if offline else asyncio.run(_check_roles(examined.loaded, settings))
        if offline:
            findings += [one for one in examined.findings if _of_a_role(one)]
    findings += [finding for one in checkups for finding in one.findings]
    if settings.json:
        click.echo(json.dumps(as_json(findings, checkups)))
    else:
        print_findings(findings, settings)
    return exit_code(findings)


def as_json(findings: list[Finding], checkups: list[Checkup]) -> dict[str, object]:
    """All that was found, as one object."""
    return {
        "ready": exit_code(findings) is ExitCode.DONE,
        "findings": [{"part": f.part, "level": f.level, "text": f.text} for f in findings],
        "roles": {
            one.role: {
                "provider": one.provider,
                "model": one.model,
                "address": one.address or None,
                "key": one.key,
                "answered": one.seconds is not None,
                "seconds": None if one.seconds is None else round(one.seconds, 3),
                "structured": one.structured,
                "usage_reported": one.usage_reported,
                "price": {"source": one.price.source, "text": one.price.text},
            }
            for one in checkups
        },
    }


async def _check_roles(loaded: Loaded, settings: Globals) -> list[Checkup]:
    """All roles, one after the other: they may be one small server."""
    models = loaded.config.model
    found = []
    for name in ("target", "optimizer", "judge"):
        config = getattr(models, name)
        if config is not None:
            found.append(
                await check_role(name, config, settings.environ, loaded.root, settings.redact)
            )
    return found


def _of_a_role(finding: Finding) -> bool:
    return finding.part.startswith("model.")


def _tools(settings: Globals) -> Iterator[Finding]:
    python = f"Python {platform.python_version()} on {platform.platform(terse=True)}"
    yield Finding("program", "ok", f"skillopt-ci {__version__}, {python}")
    yield git_finding(settings.cwd)


def _secrets(loaded: Loaded, settings: Globals) -> Iterator[Finding]:
    """What cannot be kept out of outputs by its value."""
    for value in resolved_key_values(loaded.config.model, settings.environ, loaded.root):
        if not can_be_hidden(value):
            yield Finding(
                "secrets",
                "warning",
                "a key is so short or plain that it cannot be hidden where it turns up in a text; "
                "use a longer one",
            )
            return
    yield Finding("secrets", "ok", "keys are hidden by value in all that is written")
