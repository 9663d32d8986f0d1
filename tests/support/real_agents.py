"""The real programs of other people's agents, pointed at a scripted model.

``SKILLOPT_CI_TEST_AGENTS`` names the folder that they are installed in, which
``scripts/agent-check.sh`` does; without it their tests are skipped.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from agent_model.server import AgentModel
from computer_kinds import desk

from skillopt_ci.agents.cli_agents import ExternalSolver
from skillopt_ci.agents.skill_files import SkillFolder
from skillopt_ci.computer.computer import Computer
from skillopt_ci.config.models import ModelRole
from skillopt_ci.config.rollout import AttemptLimits, ExternalConfig
from skillopt_ci.errors import FileRefused
from skillopt_ci.messages import Message
from skillopt_ci.model.command import CommandClient
from skillopt_ci.model.types import ChatRequest, Role
from skillopt_ci.program import CommandResult
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import Attempt, Step
from skillopt_ci.tasks.task import Task

KEY = "sk-very-secret-key"
ABOUT = "How things are made in this workshop"
RULE = "Every made thing is made of marzipan."
SKILL = f"---\nname: making\ndescription: {ABOUT}.\n---\n\n# Rules\n\n{RULE}\n"

_CODEX_PROVIDER = (
    'model_providers.scripted={name="scripted",base_url="URL/v1",'
    'env_key="OPENAI_API_KEY",wire_api="responses"}'
)
_GEMINI_SETTINGS = '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'


@dataclass(frozen=True)
class RealAgent:
    """How one program is made to ask the scripted model; ``URL`` stands for its address.

    ``ours`` are variables of our own environment, ``environ`` those of the computer, ``files`` what
    is put into the workspace.
    """

    name: str
    program: str
    model: str
    arguments: tuple[str, ...] = ()
    ours: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


AGENTS = MappingProxyType(
    {
        agent.name: agent
        for agent in (
            RealAgent(
                "claude-code",
                "claude",
                "claude-sonnet-4-5",
                ours={"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "URL"},
                # As root it would otherwise refuse to work on an unconfined computer.
                environ={"CLAUDE_CODE_MAX_RETRIES": "1", "IS_SANDBOX": "1"},
            ),
            RealAgent(
                "codex",
                "codex",
                "gpt-5.1-codex",
                arguments=("-c", _CODEX_PROVIDER, "-c", "model_provider=scripted"),
                ours={"OPENAI_API_KEY": KEY},
            ),
            RealAgent(
                "copilot",
                "copilot",
                "gpt-5.1",
                ours={
                    "COPILOT_PROVIDER_API_KEY": KEY,
                    "COPILOT_PROVIDER_BASE_URL": "URL/v1",
                    "COPILOT_PROVIDER_WIRE_API": "responses",
                },
            ),
            RealAgent(
                "gemini",
                "gemini",
                "gemini-2.5-pro",
                ours={"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": "URL"},
                files={".gemini/settings.json": _GEMINI_SETTINGS},
            ),
        )
    }
)


@dataclass
class Run:
    """What came of a run: its steps, its result, the stream it wrote, and the file it made."""

    steps: list[Step] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    results: list[CommandResult] = field(default_factory=list)
    made: str = ""

    @property
    def attempt(self) -> Attempt:
        (one,) = self.attempts
        return one

    @property
    def stream(self) -> str:
        return self.results[-1].stdout


class _Watched:
    """A computer whose commands' results are kept."""

    def __init__(self, computer: Computer, results: list[CommandResult]) -> None:
        self.computer, self.results = computer, results

    def __getattr__(self, name: str) -> Any:
        return getattr(self.computer, name)

    async def run(self, *words: Any, **options: Any) -> CommandResult:
        self.results.append(await self.computer.run(*words, **options))
        return self.results[-1]


def programs() -> Path:
    """Return the folder of the programs; skip the test where there is none."""
    folder = os.environ.get("SKILLOPT_CI_TEST_AGENTS")
    if not folder:
        pytest.skip("SKILLOPT_CI_TEST_AGENTS is not set: scripts/agent-check.sh installs agents")
    return Path(folder)


def run(
    agent: RealAgent,
    model: AgentModel,
    kind: str = "unconfined",
    *,
    environ: Mapping[str, str] | None = None,
    skill_as: str = "auto",
    seconds: float = 60.0,
    steps: int | None = None,
    into: Run | None = None,
) -> Run:
    """Run ``agent`` once on a computer of ``kind``, against ``model``.

    ``into`` is filled as far as it comes where the solver raises.
    """
    told = into or Run()
    solver = _solver(agent, model, skill_as)
    limits = AttemptLimits(rollout_seconds=seconds, steps=steps)
    with desk(
        kind,
        network="open",
        memory_mb=4096,
        processes=256,
        disk_mb=1024,
        environ=agent.environ if environ is None else environ,
        readable=_installed(),
    ) as opened:
        opened.do(_solve(agent, solver, _Watched(opened.computer, told.results), limits, told))
    return told


def ask(agent: RealAgent, model: AgentModel, home: Path) -> str:
    """What ``agent`` answers as a model, logged in by nothing but its key."""
    ours = {name: value.replace("URL", model.url) for name, value in agent.ours.items()}
    if agent.name == "codex":
        settings = _CODEX_PROVIDER.replace("URL", model.url)
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex" / "config.toml").write_text(f'model_provider = "scripted"\n{settings}\n')
    environ = {"PATH": f"{programs()}:{os.environ['PATH']}", "HOME": str(home), **ours}
    role = ModelRole.model_validate(
        {"provider": agent.name, "model": agent.model, "env": list(ours), "timeout": 60}
    )
    question = ChatRequest(Role.TARGET, "rollout", (Message("user", "Is it so?"),))
    client = CommandClient("model.target", role, home, environ)
    return asyncio.run(client.complete(question)).text


async def _solve(
    agent: RealAgent, solver: ExternalSolver, computer: Any, limits: AttemptLimits, told: Run
) -> None:
    for name, content in agent.files.items():
        await computer.write(name, content.encode())
    task = Task("t", (Message("user", "Make made.txt."),))
    async for step in solver.solve(
        task, SKILL, Workplace("rollout", limits=limits, computer=computer)
    ):
        if isinstance(step, Attempt):
            told.attempts.append(step)
        else:
            told.steps.append(step)
    try:
        told.made = (await computer.read("made.txt")).decode()
    except FileRefused:
        told.made = ""


def _solver(agent: RealAgent, model: AgentModel, skill_as: str) -> ExternalSolver:
    settings = ExternalConfig(
        type="external",
        agent=agent.name,  # type: ignore[arg-type]
        command=(str(programs() / agent.program),),
        model=agent.model,
        arguments=tuple(each.replace("URL", model.url) for each in agent.arguments),
        skill_as=skill_as,
    )
    ours = {name: value.replace("URL", model.url) for name, value in agent.ours.items()}
    folder = SkillFolder("SKILL.md", "making")
    return ExternalSolver(settings, Prompts.load(), folder, Path("/repo"), ours)


def _installed() -> tuple[Path, ...]:
    """Return what a sandbox must show: the programs' packages, and Node.js."""
    node = shutil.which("node", path=f"{programs()}:{os.environ['PATH']}")
    packages = programs().parent.parent.resolve()
    return (packages, *([Path(node).resolve().parent.parent] if node else ()))
