from pathlib import Path

import pytest

from skillopt_ci.agents.cli_agents import ExternalSolver
from skillopt_ci.config.config import Config
from skillopt_ci.config.models import ModelRole
from skillopt_ci.demo.client import SimulatedClient
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.types import Role
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.solver import Solver
from skillopt_ci.training.run_context import build_solver

SIMULATED = {"provider": "simulated", "model": "simulated-target"}


def solver(root: Path, settings: object, target: object = None) -> Solver:
    config = Config.model_validate(
        {
            "run": "demo",
            "skill": "skills/tidy/SKILL.md",
            "tasks": {"train": "a", "selection": "b"},
            "scorer": {"type": "exact"},
            "model": {"target": target or SIMULATED, "optimizer": SIMULATED},
            "rollout": {"solver": settings},
        }
    )
    client = SimulatedClient(ModelRole.model_validate(SIMULATED), Role.TARGET)
    return build_solver(config, client, Prompts.load(), root, {})


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"type": "chat"}, "chat"),
        ({"type": "agent"}, "agent"),
        ({"type": "external", "agent": "codex"}, "codex"),
        ({"type": "scripted", "commands": ["ls", ["echo", "a b"]]}, "scripted"),
        ({"type": "human"}, "human"),
    ],
)
def test_each_kind_is_built(tmp_path, settings, name):
    assert solver(tmp_path, settings).name == name


def test_an_external_agent_is_given_the_skills_folder(tmp_path):
    folder = tmp_path / "skills" / "tidy"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("# Rules\n")
    (folder / "notes.md").write_text("notes\n")
    built = solver(tmp_path, {"type": "external", "agent": "codex"})
    assert isinstance(built, ExternalSolver)
    assert [file.name for file in built.folder.files] == ["notes.md"]


def test_a_command_cannot_be_the_built_in_agent(tmp_path):
    target = {"provider": "command", "model": "m", "command": ["x"]}
    with pytest.raises(ModelSetupError, match="cannot call the tools") as caught:
        solver(tmp_path, {"type": "agent"}, target)
    assert "external" in caught.value.hint
