"""The command line that runs an agent on one task, and the variables that it sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skillopt_ci.config.rollout import AttemptLimits, ExternalSettings
from skillopt_ci.rollout.solvers.agents import AgentFacts

#: The kernel refuses a longer single argument (Linux: 32 pages of 4 KiB).
MOST_ARGUMENT_BYTES = 131_000

_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """Arguments and standard input of one run."""

    arguments: tuple[str, ...]
    stdin: str = ""


def agent_command(
    facts: AgentFacts, settings: ExternalSettings, root: Path, prompt: str, limits: AttemptLimits
) -> AgentCommand:
    """Return how the agent is told ``prompt``; limits that it knows itself are handed on."""
    if settings.agent == "command":
        return _own_command(settings, root, prompt)
    started = settings.command or (facts.program,)
    options = (
        *_option(facts.model_option, settings.model),
        *_option(facts.turns_option, limits.steps),
        *_option(facts.cost_option, limits.cost_usd),
    )
    arguments = (*_placed(started, root), *facts.arguments, *options, *settings.arguments)
    if facts.prompt == "argument":
        return AgentCommand((*arguments, *filter(None, [facts.prompt_option]), prompt))
    return AgentCommand((*arguments, *filter(None, [facts.last_argument])), prompt)


def agent_program(facts: AgentFacts, settings: ExternalSettings, root: Path) -> str:
    """Return the program that is started."""
    return _placed(settings.command, root)[0] if settings.command else facts.program


def agent_environ(
    facts: AgentFacts, settings: ExternalSettings, root: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that the agent sees besides those of its computer.

    A program that is named by its full path finds its neighbours: `node` beside `claude`.
    """
    names = visible_names(facts, settings)
    passed_on = {name: environ[name] for name in names if environ.get(name)}
    for name, other in facts.same_key.items():
        if other in passed_on:
            passed_on.setdefault(name, passed_on[other])
    started = agent_program(facts, settings, root)
    folder = str(PurePosixPath(started).parent)
    path = {"PATH": f"{folder}:{_USUAL_PATH}"} if started.startswith("/") else {}
    return {**path, **facts.environ, **passed_on}


def visible_names(facts: AgentFacts, settings: ExternalSettings) -> tuple[str, ...]:
    """Return the names of our variables that the agent may see."""
    return facts.keys if settings.env is None else settings.env


def _own_command(settings: ExternalSettings, root: Path, prompt: str) -> AgentCommand:
    filled = tuple(
        # The prompt last: nothing inside it is a placeholder.
        part.replace("{model}", settings.model).replace("{prompt}", prompt)
        for part in _placed(settings.command, root)
    )
    takes_prompt = any("{prompt}" in part for part in settings.command)
    return AgentCommand(filled, "" if takes_prompt else prompt)


def _placed(command: tuple[str, ...], root: Path) -> tuple[str, ...]:
    return tuple(part.replace("{root}", str(root)) for part in command)


def _option(name: str, value: object) -> tuple[str, ...]:
    return (name, str(value)) if name and value not in (None, "") else ()
