from collections.abc import Callable

import pytest

from skillopt_ci.config.loading import Loaded
from skillopt_ci.model.call_key import base_url_of

Load = Callable[..., Loaded]

ENV = "env: {name: a, skill_init: s.md, data_path: d.jsonl}\n"


def test_azure_is_found_by_the_environment_alone(load_text: Load) -> None:
    environ = {
        "AZURE_OPENAI_ENDPOINT": "https://e.openai.azure.com",
        "AZURE_OPENAI_API_KEY": "k",
        "AZURE_OPENAI_API_VERSION": "2024-12-01-preview",
        "TARGET_DEPLOYMENT": "small",
    }
    loaded = load_text(ENV, environ=environ)
    target, optimizer = loaded.config.model.target, loaded.config.model.optimizer
    assert base_url_of(target) == "https://e.openai.azure.com/openai/deployments/small"
    assert (optimizer.provider, optimizer.model) == ("azure", "gpt-5.5")
    assert loaded.warnings == ()


@pytest.mark.parametrize("name", ["TARGET_AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_TARGET_ENDPOINT"])
def test_a_role_s_variable_has_two_spellings(load_text: Load, name: str) -> None:
    environ = {"AZURE_OPENAI_ENDPOINT": "https://all/openai/v1", name: "https://t/openai/v1"}
    model = load_text(ENV, environ=environ).config.model
    assert base_url_of(model.target) == "https://t/openai/v1"
    assert base_url_of(model.optimizer) == "https://all/openai/v1"


def test_what_stands_in_a_file_wins(load_text: Load) -> None:
    text = f"{ENV}model: {{target: mine, minimax_region: '', target_backend: minimax}}"
    environ = {"TARGET_DEPLOYMENT": "theirs", "MINIMAX_REGION": "cn_zh"}
    target = load_text(text, environ=environ).config.model.target
    assert (target.model, target.region) == ("mine", "cn")


def test_a_compatible_server_is_configured_by_variables(load_text: Load) -> None:
    text = f"{ENV}model: {{backend: openai_compatible, target: m}}"
    environ = {
        "OPENAI_COMPATIBLE_BASE_URL": "http://shared/v1",
        "TARGET_OPENAI_COMPATIBLE_BASE_URL": "http://own/v1",
        "OPENAI_COMPATIBLE_TEMPERATURE": "0.2",
        "OPENAI_COMPATIBLE_MAX_TOKENS": "900",
        "OPENAI_COMPATIBLE_TIMEOUT_SECONDS": "30",
        "TARGET_OPENAI_COMPATIBLE_API_KEY": "k",
    }
    loaded = load_text(text, environ=environ)
    target, optimizer = loaded.config.model.target, loaded.config.model.optimizer
    assert (target.base_url, optimizer.base_url) == ("http://own/v1", "http://shared/v1")
    assert (target.temperature, target.max_output_tokens, target.timeout) == (0.2, 900, 30)
    assert target.key_variable == "TARGET_OPENAI_COMPATIBLE_API_KEY"
    assert optimizer.key_variable == "OPENAI_COMPATIBLE_API_KEY"
    assert loaded.warnings == ()


def test_qwen_s_variables_count(load_text: Load) -> None:
    text = f"{ENV}model: {{target_backend: qwen_chat}}"
    environ = {
        "QWEN_CHAT_BASE_URL": "http://q/v1",
        "QWEN_CHAT_THINKING_MODE": "enabled",
        "QWEN_CHAT_USE_MAX_COMPLETION_TOKENS": "true",
        "QWEN_CHAT_API_KEY": "k",
    }
    target = load_text(text, environ=environ).config.model.target
    assert (target.base_url, target.thinking) == ("http://q/v1", True)
    assert target.token_limit_field == "max_completion_tokens"
    assert target.key_variable == "QWEN_CHAT_API_KEY"


@pytest.mark.parametrize(
    ("variable", "backend"),
    [("CODEX_CLI_BIN", "codex_exec"), ("CLAUDE_CLI_BIN", "claude_chat")],
)
def test_a_program_s_place_may_be_a_variable(load_text: Load, variable: str, backend: str) -> None:
    text = f"{ENV}model: {{target_backend: {backend}}}"
    target = load_text(text, environ={variable: "/opt/it"}).config.model.target
    assert target.command[0] == "/opt/it"


def test_no_key_is_read(load_text: Load) -> None:
    environ = {"AZURE_OPENAI_ENDPOINT": "https://e", "AZURE_OPENAI_API_KEY": "sk-secret"}
    assert "sk-secret" not in repr(load_text(ENV, environ=environ))


def test_our_own_form_reads_no_variable(load_text: Load) -> None:
    text = "run: r\nskill: s\ntasks: {path: t}\nmodel: {target: openai/a, optimizer: openai/b}\n"
    environ = {"TARGET_DEPLOYMENT": "x", "AZURE_OPENAI_ENDPOINT": "https://e"}
    assert load_text(text, environ=environ).config == load_text(text).config
