"""``validate`` and ``doctor``: check a run; ask models, programs and computers a question."""

import asyncio
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from skillopt_ci import __version__
from skillopt_ci.agents.cli_agents import agent_environ, agent_program, lacks_key
from skillopt_ci.cli.build import all_tasks, roles_of
from skillopt_ci.cli.check import Finding, check_run, failed, mend, report, up_to_error
from skillopt_ci.cli.options import Globals, command
from skillopt_ci.computer.computer import Network
from skillopt_ci.computer.docker import Engine
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.config.rollout import ExternalConfig
from skillopt_ci.errors import ExitCode, InfrastructureError, SkilloptError
from skillopt_ci.git.process import Git
from skillopt_ci.messages import Message
from skillopt_ci.model.access import api_key, base_url_of, headers_of, resolved_key_values
from skillopt_ci.model.budget import Meter, tariff_of
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import ChatReply, ChatRequest, Role
from skillopt_ci.redaction import Redact, can_be_hidden
from skillopt_ci.rollout.computer_pool import ComputerPool, open_computer_pool
from skillopt_ci.tasks.loading import load_splits
from skillopt_ci.text import cost_text, plural
from skillopt_ci.training.replies import RANKING, WireError, parse_ranking

#: Seconds that somebody who asks waits for an answer, and for a connection.
_LONGEST_CALL = 120.0
_LONGEST_CONNECT = 10.0
#: The same for an agent: a first start may unpack things.
_LONGEST_START = 60.0
_QUESTION = (
    Message("system", "You rank edits of a document. Reply with one JSON object and nothing else."),
    Message(
        "user",
        "Edits:\n[0] Correct a spelling mistake\n[1] Delete the whole document\n\n"
        'Choose the better one. Reply as {"reasoning": "<one sentence>", "selected_indices": [n]}.',
    ),
)
#: The first git that fetches without a trace of its own, as the ledger does.
_OLDEST_GIT = (2, 29)
_NOT_FOUND = (126, 127)


@command()
@click.option("--probe", is_flag=True, help="Also make one small call to each model role.")
def validate_command(settings: Globals, probe: bool) -> ExitCode:
    """Check configuration, tasks, scorers, skill and repository; call no model unless --probe.

    Ends with 2 if you have something to fix, and with 5 if only a server or a remote failed.
    """
    loaded, found = check_run(settings)
    if probe and loaded is not None:
        answers = ask_roles(loaded.config.model, settings.environ, loaded.root, settings.redact)
        found += [finding for answer in asyncio.run(answers) for finding in answer.findings]
    return report("valid", found, settings)


@command()
@click.option("--offline", is_flag=True, help="Call no model; check everything else.")
def doctor_command(settings: Globals, offline: bool) -> ExitCode:
    """Check that models, tools and prices are ready, and say what to change.

    Each model role gets one small question in the format that the optimizer must keep to, a few
    hundred tokens. A dry run shows whether git may push. skillopt-ci starts what confines agents,
    and asks an agent's program for its version. No secret is printed, only where it comes from.
    Ends with 2 if you have something to fix, and with 5 if only a server or a remote failed.
    """
    loaded, checked = check_run(settings)
    roles = [one for one in checked if one.part.startswith("model.")]
    found = [*up_to_error("git", _check_tools(settings.cwd))]
    found += (one for one in checked if one not in roles)
    answers: list[Answer] = []
    if loaded is not None:
        models, root = loaded.config.model, loaded.root
        found += _check_programs(loaded, settings.environ)
        if offline:
            found += roles
        else:
            answers = asyncio.run(ask_roles(models, settings.environ, root, settings.redact))
            for one in answers:
                found += [*_describe_role(one.role, roles_of(models)[one.role]), *one.findings]
    return report("ready", found, settings, roles={one.role: one.facts for one in answers})


# Models: a key, an address, and an answer to one question of the optimizer's contract.


@dataclass(frozen=True, slots=True)
class Answer:
    """How one role answered: ``facts`` is what programs get of it, without any secret."""

    role: str
    findings: tuple[Finding, ...]
    facts: Mapping[str, object]


async def ask_roles(
    models: Models, environ: Mapping[str, str], root: Path, redact: Redact
) -> list[Answer]:
    """Ask every role one question, one after the other: they may be one small server."""
    return [
        await _ask_role(name, config, environ, root, redact)
        for name, config in roles_of(models).items()
    ]


async def _ask_role(
    name: str, config: ModelRole, environ: Mapping[str, str], root: Path, redact: Redact
) -> Answer:
    part, served = f"model.{name}", config.preset.protocol not in ("command", "simulated")
    address, price = base_url_of(config) if served else "", tariff_of(config)
    facts: dict[str, object] = {
        "provider": config.provider,
        "model": config.model,
        "address": address or None,
        "key": _key_source(config),
        "answered": False,
        "seconds": None,
        "structured": None,
        "usage_reported": None,
        "price": {"source": price.source, "text": price.text},
    }
    try:
        if served:
            api_key(part, config, environ, root)
            headers_of(part, config, environ)
            await _connect(part, address, environ)
        began = time.monotonic()
        reply = await _ask(Role(name), config, environ, root, redact)
    except SkilloptError as error:
        return Answer(name, (failed(part, error),), facts)
    seconds, usage = time.monotonic() - began, reply.usage
    used = f"{plural(usage.tokens, 'token')}, {cost_text(usage.cost_usd)}"
    found = [Finding(part, "ok", f"{reply.model} answered in {seconds:.1f} s ({used})")]
    structured = config.provider == "simulated"
    with suppress(WireError):
        structured = structured or bool(parse_ranking(reply.text, 2, 1))
    if not structured:
        found.append(_misfit(part, name, reply))
    if usage.estimated:
        text = "the server reports no usage: tokens are counted from the texts"
        found.append(Finding(part, "warning", text))
    facts |= {
        "answered": True,
        "seconds": round(seconds, 3),
        "structured": structured,
        "usage_reported": not usage.estimated,
    }
    return Answer(name, tuple(found), facts)


async def _ask(
    role: Role, config: ModelRole, environ: Mapping[str, str], root: Path, redact: Redact
) -> ChatReply:
    impatient = config.model_copy(
        update={"retries": min(1, config.retries), "timeout": min(_LONGEST_CALL, config.timeout)}
    )
    # the other roles are simulated: their mistakes are theirs
    others = {
        name: ModelRole(provider="simulated", model=f"simulated-{name}")
        for name in ("target", "optimizer")
    }
    models = Models(**{**others, role.value: impatient})
    async with open_router(models, environ, root=root, redact=redact) as router:
        request = ChatRequest(role, "doctor", _QUESTION, reply_schema=RANKING)
        client = router.for_work("doctor", Meter(clock=time.monotonic))
        return await client.complete(request)


async def _connect(part: str, address: str, environ: Mapping[str, str]) -> None:
    """Raise InfrastructureError if nobody is at ``address``; a proxy has to be asked instead."""
    url = urlsplit(address)
    proxies = (f"{url.scheme}_proxy", f"{url.scheme.upper()}_PROXY", "ALL_PROXY", "all_proxy")
    if url.hostname is None or any(environ.get(name) for name in proxies):
        return
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_LONGEST_CONNECT):
            _, writer = await asyncio.open_connection(url.hostname, port)
    except OSError as error:  # a TimeoutError is one
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise InfrastructureError(
            f"{part}: nobody can be reached at {url.hostname}, port {port}: {why}",
            hint=f"Check {part}.base_url, the network and its proxy, and that the server runs.",
        ) from error
    writer.close()


def _misfit(part: str, role: str, reply: ChatReply) -> Finding:
    hint = "Choose a model that follows instructions, or see structured_output."
    if reply.finish_reason == "length":
        why = "was cut off at the token limit: raise max_output_tokens"
    elif not reply.text.strip():
        why = "was empty"
        hint = "A reasoning model may spend its tokens before it answers: raise max_output_tokens."
    else:
        why = "was not the JSON object that was asked for"
    if role == "target":
        # what the target must be able to write, its tasks and scorers say
        told = f"its answer {why}; only tasks that want JSON need it"
        if not reply.text.strip():
            told = f"its answer was empty\n{hint}"
        return Finding(part, "warning", told)
    return mend(part, f"its answer {why}\n{hint}")


def _describe_role(name: str, config: ModelRole) -> Iterator[Finding]:
    """A role's model, where its key comes from, and its price."""
    part, price = f"model.{name}", tariff_of(config)
    where = "" if config.preset.protocol != "command" else f": {' '.join(config.program)}"
    yield Finding(part, "ok", f"{config.model} ({config.provider}{where}), {_key_source(config)}")
    if price.known:
        yield Finding(part, "ok", f"price: {price.text}")
    else:
        text = f"no price is known: cost will be unknown; set {part}.price to know it"
        yield Finding(part, "warning", text)


def _key_source(config: ModelRole) -> str:
    """Where the key comes from, never the key."""
    if config.api_key_file:
        return f"key in the file {config.api_key_file}"
    return f"key in {config.key_variable}" if config.key_variable else "no key"


# Programs: git, those that stand for models, what confines agents, and agents themselves.


def _check_tools(cwd: Path) -> Iterator[Finding]:
    python = f"Python {platform.python_version()} on {platform.platform(terse=True)}"
    yield Finding("program", "ok", f"skillopt-ci {__version__}, {python}")
    yield check_git(Git(cwd).text("--version"))


def check_git(version: str) -> Finding:
    """Whether a git that says this of its version knows what the ledger asks of it."""
    numbers = re.search(r"(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) >= _OLDEST_GIT:
        return Finding("git", "ok", version)
    oldest = ".".join(map(str, _OLDEST_GIT))
    return mend("git", f"{version} is too old\nInstall git {oldest} or newer.")


def _check_programs(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the run needs on this machine besides models: computers, agents, programs, secrets."""
    with suppress(SkilloptError):  # an error on this kind of computer is told already
        pool = open_computer_pool(loaded.config, loaded.root, environ)
        if pool is not None and pool.computers.name == "docker":
            yield from _check_images(loaded, pool, environ)
        if pool is not None:
            yield from _check_agent(loaded, pool, environ)
    yield from _check_model_programs(loaded, environ)
    values = resolved_key_values(loaded.config.model, environ, loaded.root)
    if all(map(can_be_hidden, values)):
        yield Finding("secrets", "ok", "keys are hidden by value in all that is written")
    else:
        text = (
            "a key is so short or plain that it cannot be hidden where it turns up in a text; "
            "use a longer one"
        )
        yield Finding("secrets", "warning", text)


def _check_images(
    loaded: Loaded, pool: ComputerPool, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Whether the images that configuration and task files name are there."""
    config, engine, named = loaded.config, Engine(environ), [pool.base.image]
    asyncio.run(engine.check())
    if config.tasks is not None:
        with suppress(SkilloptError):  # said of the tasks themselves
            tasks = all_tasks(load_splits(config.tasks, loaded.root, config.train))
            named += [pool.spec(task).image for task in tasks]
    for image in filter(None, dict.fromkeys(named)):
        if asyncio.run(engine.has(image)):
            yield Finding("computer", "ok", f"the image {image} is there")
        else:
            text = f"the image {image} is not there: the first attempt pulls it"
            yield Finding("computer", "warning", text)


def _check_agent(
    loaded: Loaded, pool: ComputerPool, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Whether the agent's program is on the computer, in which version, with a key and a network.

    The program is started without any key.
    """
    settings = loaded.config.rollout.solver
    if not isinstance(settings, ExternalConfig):
        return
    yield asyncio.run(_start_agent(settings, pool, loaded.root.resolve()))
    if settings.agent == "command":
        return  # a program of one's own may need neither key nor network
    if names := lacks_key(settings, environ):
        text = f"it has no key: none of {', '.join(names)} is set"
        yield Finding("agent", "warning", text, blocks=True)
    if pool.base.network is Network.NONE and pool.computers.name != "unconfined":
        text = "it can reach no server: rollout.computer.network is none\nSet it to open."
        yield Finding("agent", "warning", text, blocks=True)


async def _start_agent(settings: ExternalConfig, pool: ComputerPool, root: Path) -> Finding:
    known = settings.agent != "command"
    program = agent_program(settings, root)
    # what a program of one's own makes of --version, who knows
    asked = (program, "--version") if known else ("sh", "-c", 'command -v "$1"', "sh", program)
    spec = pool.base
    if pool.computers.name == "unconfined" and Path(program).is_file():
        # a command that is run by its name sees its own file; `command -v` has to be shown it
        spec = replace(spec, readable=(*spec.readable, Path(program)))
    async with pool.computers.open(spec) as computer:
        result = await computer.run(
            asked, timeout=_LONGEST_START, environ=agent_environ(settings, root, {})
        )
    if result.exit_code in _NOT_FOUND if known else result.exit_code:
        remedy = (
            "Build an image that has it, and set rollout.computer.image."
            if pool.computers.name == "docker"
            else "Install it below /usr, or set rollout.solver.command to its full path and add "
            "its folder to rollout.computer.readable."
        )
        where = f"is not on the task's computer ({pool.computers.name})"
        return mend("agent", f"{program} {where}\n{remedy}")
    said = next(filter(str.strip, f"{result.stdout}\n{result.stderr}".splitlines()), "")
    said = said.strip()[:120]
    if known and (result.exit_code or result.timed_out):
        return mend("agent", f"{program} --version failed: {said}")
    return Finding("agent", "ok", f"{program}: {said}" if known else f"{said} is there")


def _check_model_programs(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Where the programs are that stand for models."""
    for name, role in roles_of(loaded.config.model).items():
        if role.preset.protocol != "command":
            continue
        part, program = f"model.{name}", role.program[0]
        program = program.replace("{root}", str(loaded.root.resolve()))
        path = shutil.which(program, path=environ.get("PATH", os.defpath))
        if path is None:
            remedy = f"Install it so that it is in PATH, or name its full path in {part}.command."
            yield mend(part, f"the program {program} is not found\n{remedy}")
            continue
        yield Finding(part, "ok", f"its program is {path}")
