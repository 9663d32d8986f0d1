from collections.abc import Callable

import pytest

from skillopt_ci.settings.loading import Loaded

Load = Callable[..., Loaded]

ENV = "env: {name: a, skill_init: s.md, data_path: d.jsonl}\n"
AZURE = "azure_openai_endpoint: 'https://x.openai.azure.com/'"


def test_azure_is_called_at_its_v1_address(load_text: Load) -> None:
    target = load_text(f"{ENV}model: {{target: gpt-x, {AZURE}}}").config.model.target
    assert (target.provider, target.model) == ("openai", "gpt-x")
    assert target.base_url == "https://x.openai.azure.com/openai/v1"
    assert target.api_key_env == "AZURE_OPENAI_API_KEY"


def test_a_role_with_its_own_endpoint_has_its_own_key(load_text: Load) -> None:
    text = f"{ENV}model: {{target_azure_openai_endpoint: https://t/openai/v1, {AZURE}}}"
    model = load_text(text).config.model
    assert model.target.base_url == "https://t/openai/v1"
    assert model.target.api_key_env == "TARGET_AZURE_OPENAI_API_KEY"
    assert model.optimizer.api_key_env == "AZURE_OPENAI_API_KEY"


def test_an_endpoint_with_plain_authentication_is_taken_as_it_is(load_text: Load) -> None:
    text = f"{ENV}model: {{azure_openai_endpoint: http://h/api, azure_openai_auth_mode: compat}}"
    assert load_text(text).config.model.target.base_url == "http://h/api"


def test_other_ways_to_sign_in_are_warned_about(load_text: Load) -> None:
    loaded = load_text(f"{ENV}model: {{{AZURE}, azure_openai_auth_mode: azure_cli}}")
    assert all("azure_cli is not available, a key is used" in text for text in loaded.warnings)
    assert len(loaded.warnings) == 2


def test_without_an_endpoint_no_azure_key_goes_to_openai(load_text: Load) -> None:
    loaded = load_text(ENV)
    target = loaded.config.model.target
    assert (target.model, target.base_url) == ("gpt-5.5", None)
    assert target.api_key_env == "OPENAI_API_KEY"
    assert "AZURE_OPENAI_ENDPOINT is not read" in loaded.warnings[0]


@pytest.mark.parametrize(("effort", "ours"), [("low", "low"), ("max", "xhigh"), ("''", None)])
def test_reasoning_effort_goes_to_both_roles(
    load_text: Load, effort: str, ours: str | None
) -> None:
    model = load_text(f"{ENV}model: {{{AZURE}, reasoning_effort: {effort}}}").config.model
    assert model.target.reasoning_effort == model.optimizer.reasoning_effort == ours


def test_the_highest_effort_is_warned_about_once(load_text: Load) -> None:
    loaded = load_text(f"{ENV}model: {{{AZURE}, reasoning_effort: max}}")
    assert len(loaded.warnings) == 1


def test_a_compatible_server_gets_the_older_name_of_the_limit(load_text: Load) -> None:
    loaded = load_text(f"{ENV}model: {{backend: compat, target: m}}")
    target = loaded.config.model.target
    assert (target.base_url, target.model) == ("https://api.openai.com/v1", "m")
    assert target.api_key_env == "OPENAI_COMPATIBLE_API_KEY"
    assert target.token_limit_field == "max_tokens"
    assert loaded.config.model.optimizer.base_url == target.base_url
    assert "OPENAI_COMPATIBLE_BASE_URL is not read" in loaded.warnings[0]


def test_qwen_as_a_label_fills_the_target_alone(load_text: Load) -> None:
    model = load_text(f"{ENV}model: {{backend: qwen, {AZURE}}}").config.model
    assert (model.target.model, model.target.base_url) == (
        "Qwen/Qwen3.5-4B",
        "http://localhost:8000/v1",
    )
    assert (model.optimizer.model, model.optimizer.token_limit_field) == (
        "gpt-5.5",
        "max_completion_tokens",
    )


def test_qwen_settings_prefer_the_role(load_text: Load) -> None:
    text = (
        f"{ENV}model: {{target_backend: qwen_chat, target: q, {AZURE}, "
        "qwen_chat_base_url: http://a/v1, target_qwen_chat_base_url: http://b/v1, "
        "qwen_chat_temperature: 'off', qwen_chat_max_tokens: '900', "
        "qwen_chat_thinking_mode: disabled}"
    )
    target = load_text(text).config.model.target
    assert (target.base_url, target.temperature, target.max_output_tokens) == (
        "http://b/v1",
        None,
        900,
    )
    assert target.extra_body == {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize(
    ("region", "url"),
    [("''", "https://api.minimax.io/v1"), ("cn_zh", "https://api.minimaxi.com/v1")],
)
def test_minimax_is_called_in_its_region(load_text: Load, region: str, url: str) -> None:
    text = f"{ENV}model: {{target_backend: minimax, minimax_region: {region}, {AZURE}}}"
    target = load_text(text).config.model.target
    assert (target.base_url, target.model, target.temperature) == (url, "MiniMax-M3", 0.7)
    assert target.api_key_env == "MINIMAX_API_KEY"


@pytest.mark.parametrize(("value", "kind"), [("'true'", "adaptive"), ("'false'", "disabled")])
def test_minimax_thinking_is_passed_on(load_text: Load, value: str, kind: str) -> None:
    text = f"{ENV}model: {{target_backend: minimax, minimax_enable_thinking: {value}, {AZURE}}}"
    assert load_text(text).config.model.target.extra_body == {"thinking": {"type": kind}}


def test_a_number_that_is_none_is_refused(complaint: Callable[..., str]) -> None:
    text = f"{ENV}model: {{target_backend: minimax, minimax_temperature: warm, {AZURE}}}"
    assert "model.target.temperature: expected a number, found 'warm'" in complaint(text)


@pytest.mark.parametrize("backend", ["copilot", "copilot_exec", "nonsense"])
def test_a_backend_that_cannot_be_expressed_is_refused_with_the_two_ways_out(
    complaint: Callable[..., str], backend: str
) -> None:
    text = complaint(f"{ENV}model: {{{AZURE}, target_backend: {backend}}}")
    assert text.startswith("skillopt.yaml:2: model.target: the backend")
    assert "provider: command" in text
    assert len(text.splitlines()) == 1


def test_an_override_in_our_own_form_mends_a_refused_backend(load_text: Load) -> None:
    text = f"{ENV}model: {{{AZURE}, target_backend: copilot}}"
    loaded = load_text(text, "model.target={provider: simulated, model: m}")
    assert loaded.config.model.target.provider == "simulated"
