from collections.abc import Callable

import pytest

from skillopt_ci.config.loading import Loaded
from skillopt_ci.model.call_key import base_url_of

Load = Callable[..., Loaded]

ENV = "env: {name: a, skill_init: s.md, data_path: d.jsonl}\n"
AZURE = "azure_openai_endpoint: 'https://x.openai.azure.com/'"


KEYED = {"AZURE_OPENAI_API_KEY": "k", "TARGET_AZURE_OPENAI_API_KEY": "k"}


def test_azure_is_called_at_its_v1_address(load_text: Load) -> None:
    text = f"{ENV}model: {{target: gpt-x, {AZURE}}}"
    target = load_text(text, environ=KEYED).config.model.target
    assert (target.provider, target.model) == ("azure", "gpt-x")
    assert base_url_of(target) == "https://x.openai.azure.com/openai/v1"
    assert target.key_variable == "AZURE_OPENAI_API_KEY"


def test_a_role_with_its_own_endpoint_has_its_own_key(load_text: Load) -> None:
    text = f"{ENV}model: {{target_azure_openai_endpoint: https://t/openai/v1, {AZURE}}}"
    model = load_text(text, environ=KEYED).config.model
    assert base_url_of(model.target) == "https://t/openai/v1"
    assert model.target.key_variable == "TARGET_AZURE_OPENAI_API_KEY"
    assert model.optimizer.key_variable == "AZURE_OPENAI_API_KEY"


def test_an_endpoint_with_plain_authentication_is_taken_as_it_is(load_text: Load) -> None:
    text = f"{ENV}model: {{azure_openai_endpoint: http://h/api, azure_openai_auth_mode: compat}}"
    target = load_text(text).config.model.target
    assert (target.provider, base_url_of(target)) == ("openai", "http://h/api")


@pytest.mark.parametrize(
    ("mode", "ours"),
    [
        ("api_key", "key"),
        ("key", "key"),
        ("azure_cli", "azure_cli"),
        ("managed_identity", "managed_identity"),
        ("aad", "managed_identity"),
        ("azure_ad", "managed_identity"),
    ],
)
def test_every_way_to_sign_in_to_azure_is_known(load_text: Load, mode: str, ours: str) -> None:
    text = f"{ENV}model: {{{AZURE}, azure_openai_auth_mode: {mode}}}"
    azure = load_text(text).config.model.target.azure
    assert azure is not None
    assert azure.auth == ours


def test_without_a_key_and_a_stated_way_the_azure_cli_signs_in(load_text: Load) -> None:
    target = load_text(f"{ENV}model: {{{AZURE}}}").config.model.target
    assert target.azure is not None
    assert (target.azure.auth, target.key_variable) == ("azure_cli", None)


def test_an_unknown_way_to_sign_in_is_refused(complaint: Callable[..., str]) -> None:
    text = complaint(f"{ENV}model: {{{AZURE}, azure_openai_auth_mode: magic}}")
    assert "azure.auth: 'magic' is not one of key, azure_cli, managed_identity" in text


def test_a_version_of_azure_s_older_interface_is_kept_for_its_deployments(load_text: Load) -> None:
    text = (
        f"{ENV}model: {{target: gpt-x, {AZURE}, azure_openai_api_version: '2024-12-01-preview', "
        "azure_openai_managed_identity_client_id: abc, azure_openai_ad_scope: s}"
    )
    target = load_text(text, environ=KEYED).config.model.target
    assert target.azure is not None
    assert (target.azure.api_version, target.azure.client_id, target.azure.scope) == (
        "2024-12-01-preview",
        "abc",
        "s",
    )
    assert base_url_of(target) == "https://x.openai.azure.com/openai/deployments/gpt-x"


def test_without_an_endpoint_no_azure_key_goes_to_openai(load_text: Load) -> None:
    loaded = load_text(ENV, environ=KEYED)
    target = loaded.config.model.target
    assert (target.model, target.base_url) == ("gpt-5.5", None)
    assert target.api_key_env == "OPENAI_API_KEY"
    assert "neither azure_openai_endpoint nor AZURE_OPENAI_ENDPOINT" in loaded.warnings[0]


@pytest.mark.parametrize(("effort", "ours"), [("low", "low"), ("max", "max"), ("''", None)])
def test_reasoning_effort_goes_to_both_roles(
    load_text: Load, effort: str, ours: str | None
) -> None:
    model = load_text(f"{ENV}model: {{{AZURE}, reasoning_effort: {effort}}}").config.model
    assert model.target.reasoning_effort == model.optimizer.reasoning_effort == ours


def test_a_compatible_server_gets_the_older_name_of_the_limit(load_text: Load) -> None:
    loaded = load_text(f"{ENV}model: {{backend: compat, target: m}}")
    target = loaded.config.model.target
    assert (target.base_url, target.model) == ("https://api.openai.com/v1", "m")
    assert target.api_key_env == "OPENAI_COMPATIBLE_API_KEY"
    assert target.token_limit_field == "max_tokens"
    assert loaded.config.model.optimizer.base_url == target.base_url
    assert "OPENAI_COMPATIBLE_BASE_URL is not set" in loaded.warnings[0]


def test_qwen_as_a_label_fills_the_target_alone(load_text: Load) -> None:
    model = load_text(f"{ENV}model: {{backend: qwen, {AZURE}}}").config.model
    assert (model.target.model, model.target.base_url) == (
        "Qwen/Qwen3.5-4B",
        "http://localhost:8000/v1",
    )
    assert (model.optimizer.provider, model.optimizer.model) == ("azure", "gpt-5.5")


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
    assert target.preset.thinking[bool(target.thinking)] == {
        "chat_template_kwargs": {"enable_thinking": False}
    }


@pytest.mark.parametrize(
    ("region", "url"),
    [("''", "https://api.minimax.io/v1"), ("cn_zh", "https://api.minimaxi.com/v1")],
)
def test_minimax_is_called_in_its_region(load_text: Load, region: str, url: str) -> None:
    text = f"{ENV}model: {{target_backend: minimax, minimax_region: {region}, {AZURE}}}"
    target = load_text(text).config.model.target
    assert (base_url_of(target), target.model, target.temperature) == (url, "MiniMax-M3", 0.7)
    assert target.key_variable == "MINIMAX_API_KEY"


@pytest.mark.parametrize(("value", "kind"), [("'true'", "adaptive"), ("'false'", "disabled")])
def test_minimax_thinking_is_passed_on(load_text: Load, value: str, kind: str) -> None:
    text = f"{ENV}model: {{target_backend: minimax, minimax_enable_thinking: {value}, {AZURE}}}"
    target = load_text(text).config.model.target
    assert target.preset.thinking[bool(target.thinking)] == {"thinking": {"type": kind}}


def test_a_number_that_is_none_is_refused(complaint: Callable[..., str]) -> None:
    text = f"{ENV}model: {{target_backend: minimax, minimax_temperature: warm, {AZURE}}}"
    assert "model.target.temperature: expected a number, found 'warm'" in complaint(text)


@pytest.mark.parametrize("backend", ["nonsense", "ollama_chat"])
def test_a_backend_that_cannot_be_expressed_is_refused_with_the_two_ways_out(
    complaint: Callable[..., str], backend: str
) -> None:
    text = complaint(f"{ENV}model: {{{AZURE}, target_backend: {backend}}}")
    assert text.startswith("skillopt.yaml:2: model.target: the backend")
    assert "provider: command" in text
    assert len(text.splitlines()) == 1


def test_an_override_in_our_own_form_mends_a_refused_backend(load_text: Load) -> None:
    text = f"{ENV}model: {{{AZURE}, target_backend: nonsense}}"
    loaded = load_text(text, "model.target={provider: simulated, model: m}")
    assert loaded.config.model.target.provider == "simulated"
