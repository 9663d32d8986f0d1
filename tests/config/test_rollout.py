from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from skillopt_ci.agents.cli_agents import AGENTS
from skillopt_ci.agents.streams import READERS
from skillopt_ci.config import rollout
from skillopt_ci.config.config import SplitDir, choose_shape_of_tasks
from skillopt_ci.config.rollout import ChatConfig, ComputerConfig, ExternalConfig
from skillopt_ci.rollout.computer_pool import computers, open_computer_pool


def test_the_usual_computer_is_a_sandbox_without_network(load_with):
    pool = open_computer_pool(load_with("rollout: {computer: {}}\n").config, Path(), {})
    assert (pool.computers.name, pool.base.network) == ("sandbox", "none")


@pytest.mark.parametrize("kind", ["sandbox", "docker", "unconfined"])
def test_the_kind_is_what_is_configured(kind):
    assert computers(ComputerConfig.model_validate({"type": kind}), {"PATH": "/bin"}).name == kind


def test_only_the_unconfined_kind_always_has_a_caveat():
    assert "not confined" in computers(ComputerConfig(type="unconfined"), {}).caveat
    assert computers(ComputerConfig(type="docker"), {}).caveat == ""


def test_every_limit_reaches_the_computer(load_with):
    text = (
        "{type: docker, network: open, image: 'python:3.12', memory_mb: 64, cpus: 0.5, "
        "processes: 32, disk_mb: 8, environ: {A: '1', B: '2'}, readable: [/opt/tool]}"
    )
    made = open_computer_pool(load_with(f"rollout: {{computer: {text}}}\n").config, Path(), {}).base
    assert (made.network, made.image) == ("open", "python:3.12")
    assert (made.memory_mb, made.cpus, made.processes, made.disk_mb) == (64, 0.5, 32, 8)
    assert (made.environ, made.readable) == ({"A": "1", "B": "2"}, (Path("/opt/tool"),))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("type", "chroot"),
        ("network", "some"),
        ("memory_mb", 0),
        ("cpus", 0),
        ("processes", 1),
        ("disk_mb", 0),
        ("environ", {"NOT A NAME": ""}),
        ("environ", {"A": "zero\0byte"}),
        ("image", "zero\0byte"),
        ("readable", ["relative"]),
        ("readable", ["/"]),
        ("readable", ["/usr"]),
        ("readable", ["/home"]),
        ("readable", ["/workspace/x"]),
        ("readable", ["/tmp/x"]),
        ("readable", ["/opt/../etc"]),
        ("readable", ["/opt/zero\0byte"]),
    ],
)
def test_what_no_computer_can_be_is_refused(key, value):
    for section in (ComputerConfig, rollout.ComputerBlock):
        with pytest.raises(ValidationError):
            section.model_validate({key: value})


def test_only_a_container_has_an_image():
    with pytest.raises(ValidationError, match="image"):
        ComputerConfig(type="unconfined", image="python")


@pytest.mark.parametrize(
    "setting",
    [
        'rollout.task={setup: [["true", "all"]]}',
        'rollout.task={submission: {command: ["true"]}}',
        'rollout.task.setup=[["true", "all"]]',
        'rollout.task.submission.command=["true"]',
        'scorer={type: computer, command: ["true"]}',
        'scorer={type: computer, setup: [["true"]], command: "true"}',
        'scorer={type: computer, report: {command: ["true"]}}',
    ],
)
def test_a_command_may_be_a_list(load_with, setting):
    assert load_with("rollout: {computer: {type: unconfined}}\n", setting)
    key, _, value = setting.partition("=")
    if key == "rollout.task":
        assert load_with(f"rollout: {{task: {value}, computer: {{type: unconfined}}}}\n")


@pytest.mark.parametrize("path", ["/opt/tool", "/home/runner/.local", "/usr/local/lib/tool"])
def test_what_can_be_lent(path):
    assert ComputerConfig.model_validate({"readable": [path]}).readable == (Path(path),)


SOLVER: TypeAdapter[Any] = TypeAdapter(rollout.SolverConfig)


def test_a_chat_answer_is_the_default():
    assert rollout.RolloutConfig().solver == ChatConfig()


@pytest.mark.parametrize("key", ["grade_every_step", "nudges"])
def test_steps_that_are_not_seen_can_be_neither_graded_nor_followed(key):
    solver = {"type": "external", "agent": "codex"}
    with pytest.raises(ValidationError, match=rf"`{key}`.*only when it has ended"):
        rollout.RolloutConfig.model_validate({"solver": solver, key: 1})


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
def test_what_cannot_work_is_refused(given, fault):
    with pytest.raises(ValidationError, match=fault):
        SOLVER.validate_python(given)


def test_every_agent_of_the_settings_is_known():
    agents = ExternalConfig.model_json_schema()["properties"]["agent"]["anyOf"]
    named = {name for each in agents for name in each.get("enum", [each.get("const")])}
    assert named == set(AGENTS)
    assert set(READERS) == {*AGENTS, "text"} - {"command"}


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        ({"path": "a", "limit": 1}, "RatioSplit"),
        ({"trian": "a"}, "GivenSplits"),
        ({"spltdir": "a"}, "SplitDir"),
        ({"path": "a", "split": "1:1:1", "train": "b"}, "RatioSplit"),
        ({}, "GivenSplits"),
        (SplitDir(split_dir="a"), "SplitDir"),
        ("tasks.jsonl", None),
        (None, None),
    ],
)
def test_the_shape_whose_keys_are_closest_is_meant(value, chosen):
    assert choose_shape_of_tasks(value) == chosen
