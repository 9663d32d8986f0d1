"""The solver that the configuration asks for."""

import sys
from collections.abc import Mapping
from pathlib import Path

from skillopt_ci.agents.builtin import AgentSolver
from skillopt_ci.agents.cli_agents import ExternalSolver
from skillopt_ci.agents.manual import HumanSolver, ScriptedSolver, StreamTerminal
from skillopt_ci.agents.skill_files import read_skill_folder
from skillopt_ci.config import rollout
from skillopt_ci.config.config import Config
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.types import ChatClient
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import ChatSolver, Solver


def build_solver(
    config: Config, client: ChatClient, prompts: Prompts, root: Path, environ: Mapping[str, str]
) -> Solver:
    """Raises ModelSetupError, or SkillError for an unusable skill folder."""
    match config.rollout.solver:
        case rollout.ChatConfig():
            return ChatSolver(client, prompts)
        case rollout.AgentConfig() as settings:
            if config.model.target.provider == "command":
                raise ModelSetupError(
                    "model.target: a command cannot call the tools of the built-in agent.",
                    hint="Run an agent that has its own tools with "
                    "`rollout.solver: {type: external}`.",
                )
            return AgentSolver(client, prompts, settings)
        case rollout.ExternalConfig() as settings:
            folder = read_skill_folder(root / config.skill)
            return ExternalSolver(settings, prompts, folder, root.resolve(), environ)
        case rollout.ScriptedConfig() as settings:
            return ScriptedSolver(settings)
        case rollout.HumanConfig() as settings:
            return HumanSolver(settings, StreamTerminal(sys.stdin, sys.stderr))
