from collections.abc import Callable
from itertools import pairwise

import pytest

from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.models import Models

Load = Callable[..., Loaded]
Read = Callable[[str], Models]

ENV = "env: {name: a, skill_init: s.md, data_path: d.jsonl, max_completion_tokens: 900}\n"


@pytest.fixture
def read(load_text: Load) -> Read:
    """The model roles of a SkillOpt file with these keys in its `model` section."""
    return lambda keys: load_text(f"{ENV}model: {{{keys}}}").config.model


def options(command: tuple[str, ...], name: str) -> list[str]:
    return [value for key, value in pairwise(command) if key == name]


@pytest.mark.parametrize(
    ("backend", "program", "model"),
    [
        ("claude_chat", "claude", "claude-sonnet-4-6"),
        ("anthropic", "claude", "claude-sonnet-4-6"),
        ("claude_code_exec", "claude", "claude-sonnet-4-6"),
        ("codex_exec", "codex", "gpt-5.5"),
        ("cursor", "cursor-agent", "composer-2.5"),
    ],
)
def test_an_agent_is_a_command_with_its_usual_model(
    read: Read, backend: str, program: str, model: str
) -> None:
    target = read(f"target_backend: {backend}").target
    assert (target.provider, target.command[0], target.model) == ("command", program, model)
    assert model in target.command


@pytest.mark.parametrize(
    ("label", "optimizer"),
    [
        ("claude_chat", "command"),
        ("codex", "command"),
        ("claude_code_exec", "openai"),
        ("cursor", "openai"),
    ],
)
def test_a_label_fills_both_roles_or_the_target_alone(
    read: Read, label: str, optimizer: str
) -> None:
    models = read(f"backend: {label}")
    assert (models.target.provider, models.optimizer.provider) == ("command", optimizer)


def test_only_the_target_of_codex_may_write_and_only_below_its_folder(read: Read) -> None:
    models = read("backend: codex_exec")
    assert options(models.target.command, "--sandbox") == ["workspace-write"]
    assert options(models.optimizer.command, "--sandbox") == ["read-only"]
    assert options(models.target.command, "-c") == ["approval_policy=never"]


def test_every_setting_of_codex_is_passed_on(read: Read) -> None:
    target = read(
        "target_backend: codex_exec, target: m, codex_exec_path: /opt/codex, sandbox: read-only, "
        "codex_exec_profile: p, codex_exec_reasoning_effort: max, codex_exec_network_access: true, "
        "codex_exec_web_search: false, codex_exec_approval_policy: on-failure"
    ).target
    assert target.command[0] == "/opt/codex"
    assert options(target.command, "--sandbox") == ["read-only"]
    assert options(target.command, "-p") == ["p"]
    assert options(target.command, "-c") == [
        "approval_policy=on-failure",
        "model_reasoning_effort=xhigh",
        "sandbox_workspace_write.network_access=true",
        "web_search=disabled",
    ]


@pytest.mark.parametrize(
    ("effort", "passed_on"),
    [("low", ["low"]), ("xhigh", ["max"]), ("none", []), ("odd", ["medium"]), ("''", ["medium"])],
)
def test_the_effort_of_an_agent_is_one_that_it_knows(
    read: Read, effort: str, passed_on: list[str]
) -> None:
    target = read(f"target_backend: claude_code_exec, claude_code_exec_effort: {effort}").target
    assert options(target.command, "--effort") == passed_on
    assert options(target.command, "--max-thinking-tokens") == ["16384"]


def test_a_chat_by_command_has_the_effort_of_all_models_and_no_tools(read: Read) -> None:
    target = read("target_backend: claude_chat, reasoning_effort: high").target
    assert options(target.command, "--effort") == ["high"]
    assert "--allowedTools" not in target.command


def test_an_agent_sees_its_own_key_and_no_other(read: Read) -> None:
    assert read("target_backend: cursor_exec").target.env == ("CURSOR_API_KEY",)


def test_limits_of_calls_hold_for_an_agent_but_for_its_tokens(load_text: Load) -> None:
    text = f"{ENV}workers: 3\nexec_timeout: 90\nmodel: {{target_backend: cursor}}"
    target = load_text(text).config.model.target
    assert (target.max_concurrency, target.timeout) == (3, 90)
    assert target.max_output_tokens is None


@pytest.mark.parametrize("backend", ["copilot", "copilot_chat", "github_copilot", "copilot_cli"])
def test_copilot_answers_without_tools(read: Read, backend: str) -> None:
    models = read(f"backend: {backend}, copilot_chat_target_model: m, copilot_chat_timeout: '90'")
    target = models.target
    assert (target.provider, target.model, target.timeout) == ("copilot", "m", 90)
    assert "--available-tools=none" in target.command
    assert "-p" not in target.command
    assert models.optimizer.provider == "copilot"
    assert "GITHUB_TOKEN" in target.variables


@pytest.mark.parametrize(("free", "given"), [("true", True), ("false", False)])
def test_copilot_at_work_may_use_its_tools_if_that_is_wanted(
    read: Read, free: str, given: bool
) -> None:
    keys = (
        f"target_backend: copilot_exec, copilot_exec_path: /c, copilot_exec_allow_all_tools: {free}"
    )
    target = read(keys).target
    assert target.command[0] == "/c"
    assert ("--allow-all-tools" in target.command) == given
    assert "--available-tools=none" not in target.command
