from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from skillopt_ci.agents.cli_agents import AGENTS
from skillopt_ci.agents.streams import READERS
from skillopt_ci.config.rollout import (
    AgentConfig,
    ChatConfig,
    ExternalConfig,
    HumanConfig,
    RolloutConfig,
    ScriptedConfig,
    SolverConfig,
)

SOLVER: TypeAdapter[Any] = TypeAdapter(SolverConfig)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"type": "chat"}, ChatConfig),
        ({"type": "agent"}, AgentConfig),
        ({"type": "external", "agent": "codex"}, ExternalConfig),
        ({"type": "scripted", "commands": ["ls", ["echo", "a b"]]}, ScriptedConfig),
        ({"type": "human"}, HumanConfig),
    ],
)
def test_the_type_decides(given: dict[str, object], kind: type[object]) -> None:
    assert isinstance(SOLVER.validate_python(given), kind)


def test_a_chat_answer_is_the_default() -> None:
    assert RolloutConfig().solver == ChatConfig()


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"type": "agnet"}, "agent"),
        ({"type": "agent", "tools": ["shell", "shell"]}, "each tool may be named once"),
        ({"type": "agent", "tools": []}, "at least 1"),
        ({"type": "agent", "tools": ["submit"]}, "shell"),
        ({"type": "agent", "command_seconds": 0}, "greater than 0"),
        ({"type": "external"}, "agent"),
        ({"type": "external", "agent": "command"}, "needs `command`"),
        (
            {"type": "external", "agent": "command", "command": ["x"], "arguments": ["y"]},
            "write them into `command`",
        ),
        ({"type": "external", "agent": "codex", "skill_as": "../x"}, "inside the workspace"),
        ({"type": "external", "agent": "codex", "skill_as": "/etc/x"}, "inside the workspace"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        SOLVER.validate_python(given)


def test_every_agent_of_the_settings_is_known() -> None:
    agents = ExternalConfig.model_json_schema()["properties"]["agent"]["anyOf"]
    named = {name for each in agents for name in each.get("enum", [each.get("const")])}
    assert named == set(AGENTS)
    assert set(READERS) == {*AGENTS, "text"} - {"command"}
