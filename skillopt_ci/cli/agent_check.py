"""Examine other people's agents where they will work: on a computer of the run's own kind."""

import asyncio
from collections.abc import Iterator, Mapping

from skillopt_ci.agents.cli_agents import AGENTS, agent_environ, agent_program, visible_names
from skillopt_ci.cli.examine import Finding
from skillopt_ci.cli.tools import first_line
from skillopt_ci.computer.computer import (
    CommandResult,
    ComputerFailure,
    ComputerUnavailable,
    Network,
)
from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.rollout import ExternalSettings
from skillopt_ci.errors import ExitCode
from skillopt_ci.rollout.computers import Places, open_places

_PART = "agent"
#: A first start may unpack things.
_PATIENCE = 60.0
_NOT_FOUND = (126, 127)


def agent_findings(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether the agent's program is on the computer, in which version, with a key and a network.

    The program is started without any key. Nothing is found of a computer that cannot be opened:
    that is told of the computer.
    """
    settings = loaded.config.rollout.solver
    if not isinstance(settings, ExternalSettings):
        return
    places = open_places(loaded.config, loaded.root, environ)
    if places is None:
        return
    try:
        yield asyncio.run(_program(settings, places, loaded))
    except (ComputerUnavailable, ComputerFailure):
        return
    yield from _reach(settings, places, environ)


async def _program(settings: ExternalSettings, places: Places, loaded: Loaded) -> Finding:
    facts, root = AGENTS[settings.agent], loaded.root.resolve()
    program = agent_program(facts, settings, root)
    seen = agent_environ(facts, settings, root, {})
    known = settings.agent != "command"
    # what a program of one's own makes of --version, who knows
    asked = (program, "--version") if known else ("sh", "-c", 'command -v "$1"', "sh", program)
    async with places.computers.open(places.base) as computer:
        result = await computer.run(asked, timeout=_PATIENCE, environ=seen)
    if _absent(result, known=known):
        text = f"{program} is not on the task's computer ({places.computers.name})"
        return Finding(_PART, "error", f"{text}\n{_remedy(places)}", ExitCode.USAGE)
    said = first_line(result.stdout) or first_line(result.stderr)
    if known and (result.exit_code or result.timed_out):
        return Finding(_PART, "error", f"{program} --version failed: {said}", ExitCode.USAGE)
    return Finding(_PART, "ok", f"{program}: {said}" if known else f"{said} is there")


def _absent(result: CommandResult, *, known: bool) -> bool:
    return result.exit_code in _NOT_FOUND if known else bool(result.exit_code)


def _remedy(places: Places) -> str:
    if places.computers.name == "docker":
        return "Build an image that has it, and set rollout.computer.image."
    return (
        "Install it below /usr, or set rollout.solver.command to its full path and add its folder "
        "to rollout.computer.readable."
    )


def _reach(
    settings: ExternalSettings, places: Places, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """What a known agent needs to ask its model; a program of one's own may need neither."""
    if settings.agent == "command":
        return
    names = visible_names(AGENTS[settings.agent], settings)
    if not any(environ.get(name) for name in names):
        text = f"it has no key: none of {', '.join(names) or 'rollout.solver.env'} is set"
        yield Finding(_PART, "warning", text, blocks=True)
    if places.base.network is Network.NONE and places.computers.name != "unconfined":
        text = "it can reach no server: rollout.computer.network is none\nSet it to open."
        yield Finding(_PART, "warning", text, blocks=True)
