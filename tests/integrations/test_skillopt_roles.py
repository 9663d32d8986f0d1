from collections.abc import Callable
from itertools import pairwise

import pytest

from skillopt_ci.config.loading import Loaded
from skillopt_ci.config.models import Models
from skillopt_ci.errors import ConfigError
from skillopt_ci.model.access import base_url_of

ENV = "env: {name: a, skill_init: s.md, data_path: d.jsonl}\n"


AZURE = "azure_openai_endpoint: 'https://x.openai.azure.com/'"


KEY = "AZURE_OPENAI_API_KEY"
KEYED = {KEY: "k", "TARGET_AZURE_OPENAI_API_KEY": "k"}


def test_azure_is_called_at_its_v1_address(load_text):
    text = f"{ENV}model: {{target: gpt-x, {AZURE}}}"
    target = load_text(text, environ=KEYED).config.model.target
    assert (target.provider, target.model) == ("azure", "gpt-x")
    assert base_url_of(target) == "https://x.openai.azure.com/openai/v1"
    assert target.key_variable == "AZURE_OPENAI_API_KEY"


def test_a_role_with_its_own_endpoint_has_its_own_key(load_text):
    text = f"{ENV}model: {{target_azure_openai_endpoint: https://t/openai/v1, {AZURE}}}"
    model = load_text(text, environ=KEYED).config.model
    assert base_url_of(model.target) == "https://t/openai/v1"
    assert model.target.key_variable == "TARGET_AZURE_OPENAI_API_KEY"
    assert model.optimizer.key_variable == "AZURE_OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("variable", "url", "environ"),
    [(None, "http://h/api", {}), (KEY, "http://h/api", KEYED), (KEY, "https://h/api", {})],
)
def test_a_server_of_ones_own_needs_no_key(load_text, variable, url, environ):
    text = f"{ENV}model: {{azure_openai_endpoint: {url}, azure_openai_auth_mode: ' Compat'}}"
    target = load_text(text, environ=environ).config.model.target
    told = (target.provider, base_url_of(target), target.key_variable)
    assert told == ("openai", url, variable)


@pytest.mark.parametrize(
    ("modes", "ours"),
    [
        ("api_key API_KEY key", "key"),
        ("azure_cli", "azure_cli"),
        ("managed_identity aad azure_ad", "managed_identity"),
    ],
)
def test_every_way_to_sign_in_to_azure_is_known(load_text, modes, ours):
    for mode in modes.split():
        text = f"{ENV}model: {{{AZURE}, azure_openai_auth_mode: {mode}}}"
        azure = load_text(text).config.model.target.azure
        assert azure.auth == ours


def test_without_a_key_and_a_stated_way_the_azure_cli_signs_in(load_text):
    target = load_text(f"{ENV}model: {{{AZURE}}}").config.model.target
    assert (target.azure.auth, target.key_variable) == ("azure_cli", None)


def test_an_unknown_way_to_sign_in_is_refused(complaint):
    text = complaint(f"{ENV}model: {{{AZURE}, azure_openai_auth_mode: magic}}")
    assert "azure.auth: 'magic' is not one of key, azure_cli, managed_identity" in text


def test_a_version_of_azure_s_older_interface_is_kept_for_its_deployments(load_text):
    text = (
        f"{ENV}model: {{target: gpt-x, {AZURE}, azure_openai_api_version: '2024-12-01-preview', "
        "azure_openai_managed_identity_client_id: abc, azure_openai_ad_scope: s}"
    )
    target = load_text(text, environ=KEYED).config.model.target
    azure = target.azure
    assert (azure.api_version, azure.client_id, azure.scope) == ("2024-12-01-preview", "abc", "s")
    assert base_url_of(target) == "https://x.openai.azure.com/openai/deployments/gpt-x"


def test_a_value_that_skillopts_base_file_fills_in_hides_no_shared_one(load_text):
    filled = "target_azure_openai_api_version: 2024-12-01-preview"
    text = f"{ENV}model: {{{AZURE}, {filled}, azure_openai_api_version: 2025-04-01-preview}}"
    azure = load_text(text).config.model.target.azure
    assert azure.api_version == "2025-04-01-preview"


def test_without_an_endpoint_no_azure_key_goes_to_openai(load_text):
    loaded = load_text(ENV, environ=KEYED)
    target = loaded.config.model.target
    assert (target.model, target.base_url) == ("gpt-5.5", None)
    assert target.api_key_env == "OPENAI_API_KEY"
    assert "neither azure_openai_endpoint nor AZURE_OPENAI_ENDPOINT" in loaded.warnings[0]


@pytest.mark.parametrize(("effort", "ours"), [("low", "low"), ("max", "max"), ("''", None)])
def test_reasoning_effort_goes_to_both_roles(load_text, effort, ours):
    model = load_text(f"{ENV}model: {{{AZURE}, reasoning_effort: {effort}}}").config.model
    assert model.target.reasoning_effort == model.optimizer.reasoning_effort == ours


def test_a_compatible_server_gets_the_older_name_of_the_limit(load_text):
    loaded = load_text(f"{ENV}model: {{backend: ' Compat ', target: m}}")
    target = loaded.config.model.target
    assert (target.base_url, target.model) == ("https://api.openai.com/v1", "m")
    assert target.api_key_env == "OPENAI_COMPATIBLE_API_KEY"
    assert target.token_limit_field == "max_tokens"
    optimizer = loaded.config.model.optimizer
    assert optimizer.base_url == target.base_url
    # its usual limit would cut off the optimizer's merges
    assert (target.max_output_tokens, optimizer.max_output_tokens) == (8000, None)
    assert "OPENAI_COMPATIBLE_BASE_URL is not set" in loaded.warnings[0]


def test_qwen_as_a_label_fills_the_target_alone(load_text):
    model = load_text(f"{ENV}model: {{backend: qwen, {AZURE}}}").config.model
    told = (model.target.model, model.target.base_url)
    assert told == ("Qwen/Qwen3.5-4B", "http://localhost:8000/v1")
    assert model.target.api_key_env is None  # a server of one's own needs none
    assert (model.optimizer.provider, model.optimizer.model) == ("azure", "gpt-5.5")


@pytest.mark.parametrize("off", ["'off'", "off"])
def test_qwen_settings_prefer_the_role(load_text, off):
    text = (
        f"{ENV}model: {{target_backend: qwen_chat, target: q, {AZURE}, "
        "qwen_chat_base_url: http://a/v1, target_qwen_chat_base_url: http://b/v1, "
        f"qwen_chat_temperature: {off}, qwen_chat_max_tokens: '900', "
        "qwen_chat_thinking_mode: disabled}"
    )
    target = load_text(text).config.model.target
    told = (target.base_url, target.temperature, target.max_output_tokens)
    assert told == ("http://b/v1", None, 900)
    switch = target.preset.thinking[bool(target.thinking)]
    assert switch == {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize(
    ("region", "url", "thinking", "kind"),
    [
        ("''", "https://api.minimax.io/v1", "'true'", "adaptive"),
        ("cn_zh", "https://api.minimaxi.com/v1", "'false'", "disabled"),
    ],
)
def test_minimax_is_called_in_its_region_and_told_to_think(load_text, region, url, thinking, kind):
    keys = f"minimax_region: {region}, minimax_enable_thinking: {thinking}, {AZURE}"
    target = load_text(f"{ENV}model: {{target_backend: minimax, {keys}}}").config.model.target
    assert (base_url_of(target), target.model, target.temperature) == (url, "MiniMax-M3", 0.7)
    assert target.key_variable == "MINIMAX_API_KEY"
    assert target.preset.thinking[bool(target.thinking)] == {"thinking": {"type": kind}}


@pytest.mark.parametrize(("stated", "optimizer"), [('"8000"', None), ("4000", 4000)])
def test_minimax_s_usual_limit_is_the_target_s_alone(load_text, stated, optimizer):
    limits = f"minimax_max_tokens: {stated}, minimax_timeout_seconds: '8000'"
    text = f"{ENV}model: {{target_backend: minimax, optimizer_backend: minimax, {limits}}}"
    model = load_text(text).config.model
    assert (model.optimizer.max_output_tokens, model.optimizer.timeout) == (optimizer, 8000)
    assert model.target.max_output_tokens == (optimizer or 8000)


def test_a_number_that_is_none_is_refused(complaint):
    text = f"{ENV}model: {{target_backend: minimax, minimax_temperature: warm, {AZURE}}}"
    assert "model.target.temperature: expected a number, found 'warm'" in complaint(text)


@pytest.mark.parametrize("backend", ["nonsense", "ollama_chat"])
def test_a_backend_that_cannot_be_expressed_is_refused_with_the_two_ways_out(complaint, backend):
    text = complaint(f"{ENV}model: {{{AZURE}, target_backend: {backend}}}")
    assert text.startswith("skillopt.yaml:2: model.target: the backend")
    assert "provider: command" in text
    assert len(text.splitlines()) == 1


def test_an_override_in_our_own_form_mends_a_refused_backend(load_text):
    text = f"{ENV}model: {{{AZURE}, target_backend: nonsense}}"
    loaded = load_text(text, "model.target={provider: simulated, model: m}")
    assert loaded.config.model.target.provider == "simulated"


LIMITED = ENV.replace("}", ", max_completion_tokens: 900}")


@pytest.fixture
def read(load_text: Callable[..., Loaded]) -> Callable[[str], Models]:
    """The model roles of a SkillOpt file with these keys in its `model` section."""
    return lambda keys: load_text(f"{LIMITED}model: {{{keys}}}").config.model


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
def test_an_agent_is_a_command_with_its_usual_model(read, backend, program, model):
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
def test_a_label_fills_both_roles_or_the_target_alone(read, label, optimizer):
    models = read(f"backend: {label}")
    assert (models.target.provider, models.optimizer.provider) == ("command", optimizer)


def test_only_the_target_of_codex_may_write_and_only_below_its_folder(read):
    models = read("backend: codex_exec")
    assert options(models.target.command, "--sandbox") == ["workspace-write"]
    assert options(models.optimizer.command, "--sandbox") == ["read-only"]
    given = options(models.target.command, "-c")
    assert given == ["approval_policy=never", "model_reasoning_effort=medium"]


def test_every_setting_of_codex_is_passed_on(read):
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


CODEX = f"{ENV}model: {{optimizer_backend: codex_exec, target_backend: codex_exec"
NETWORK = "sandbox_workspace_write.network_access=true"


@pytest.mark.parametrize("word", ["false", "0", "no", "False"])
def test_a_text_that_says_no_keeps_codexs_network_off(load_text, word):
    loaded = load_text(f"{CODEX}}}", environ={"CODEX_EXEC_NETWORK_ACCESS": word})
    stated = load_text(f"{CODEX}, codex_exec_network_access: '{word}'}}")
    assert NETWORK not in loaded.config.model.target.command + stated.config.model.target.command


@pytest.mark.parametrize(
    "key", ["codex_exec_network_access", "codex_exec_web_search", "codex_exec_sandbox"]
)
def test_a_setting_of_codex_that_means_nothing_is_refused(complaint, key):
    assert "maybe" in complaint(f"{CODEX}, {key}: maybe}}")


def test_a_variable_of_codex_that_means_nothing_is_named(load_text):
    told = "'none' in the variable CODEX_SANDBOX_MODE is not one of read-only"
    with pytest.raises(ConfigError, match=told):
        load_text(f"{CODEX}}}", environ={"CODEX_SANDBOX_MODE": "none"})


def test_the_variable_of_the_optimizers_sandbox_is_read(load_text):
    # With SkillOpt it is the chat role's, `codex_exec_sandbox` the target's.
    loaded = load_text(f"{CODEX}}}", environ={"CODEX_SANDBOX_MODE": "workspace-write"})
    assert options(loaded.config.model.optimizer.command, "--sandbox") == ["workspace-write"]


@pytest.mark.parametrize(
    ("effort", "passed_on"),
    [("low", ["low"]), ("xhigh", ["max"]), ("none", []), ("odd", ["medium"]), ("''", ["medium"])],
)
def test_the_effort_of_an_agent_is_one_that_it_knows(read, effort, passed_on):
    target = read(f"target_backend: claude_code_exec, claude_code_exec_effort: {effort}").target
    assert options(target.command, "--effort") == passed_on
    assert options(target.command, "--max-thinking-tokens") == ["16384"]


def test_a_chat_by_command_has_the_effort_of_all_models_and_no_tools(read):
    target = read("target_backend: claude_chat, reasoning_effort: high").target
    assert options(target.command, "--effort") == ["high"]
    assert "--allowedTools" not in target.command
    assert read("target_backend: cursor_exec").target.env == ("CURSOR_API_KEY",)


def test_limits_of_calls_hold_for_an_agent_but_for_its_tokens(load_text):
    text = f"{LIMITED}workers: 3\nexec_timeout: 90\nmodel: {{target_backend: cursor}}"
    target = load_text(text).config.model.target
    assert (target.max_concurrency, target.timeout) == (3, 90)
    assert target.max_output_tokens is None


@pytest.mark.parametrize("backend", ["copilot", "copilot_chat", "github_copilot", "copilot_cli"])
def test_copilot_answers_without_tools(read, backend):
    models = read(f"backend: {backend}, copilot_chat_target_model: m, copilot_chat_timeout: '90'")
    target = models.target
    assert (target.provider, target.model, target.timeout) == ("copilot", "m", 90)
    assert "--available-tools=none" in target.command
    assert "-p" not in target.command
    assert models.optimizer.provider == "copilot"
    assert "GITHUB_TOKEN" in target.variables


@pytest.mark.parametrize(("free", "given"), [("true", True), ("false", False)])
def test_copilot_at_work_may_use_its_tools_if_that_is_wanted(read, free, given):
    keys = (
        f"target_backend: copilot_exec, copilot_exec_path: /c, copilot_exec_allow_all_tools: {free}"
    )
    target = read(keys).target
    assert target.command[0] == "/c"
    assert ("--allow-all-tools" in target.command) == given
    assert "--available-tools=none" not in target.command
