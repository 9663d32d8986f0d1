from typing import Any, get_args

import pytest
from pydantic import ValidationError

from skillopt_ci.config.models import PROVIDERS, ModelRole, ProviderName
from skillopt_ci.model.access import base_url_of

REST = "run: r\nskill: s\ntasks: {path: t}\n"


def role(provider: str, **more: Any) -> ModelRole:
    return ModelRole.model_validate({"provider": provider, "model": "m", **more})


def test_every_name_has_a_preset():
    assert tuple(PROVIDERS) == get_args(ProviderName), "name them in the order of providers.toml"


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("anthropic/claude-sonnet-5", "anthropic", "claude-sonnet-5"),
        ("openrouter/qwen/qwen3-32b", "openrouter", "qwen/qwen3-32b"),
        ("codex/gpt-5.5", "codex", "gpt-5.5"),
        ("simulated/simulated-target", "simulated", "simulated-target"),
    ],
)
def test_a_role_in_one_line(load_text, text, provider, model):
    models = load_text(f"{REST}model: {{target: {text}, optimizer: openai/gpt-5.5}}").config.model
    assert (models.target.provider, models.target.model) == (provider, model)
    assert (models.optimizer.provider, models.optimizer.model) == ("openai", "gpt-5.5")


def test_a_role_in_one_line_may_be_the_command_line_s(load_text):
    local = "{provider: vllm, model: a, base_url: 'http://h/v1'}"
    text = f"{REST}model: {{target: {local}, optimizer: openai/b}}"
    target = load_text(text, "model.target=groq/c").config.model.target
    assert (target.provider, target.model, target.base_url) == ("groq", "c", None)


def test_one_key_can_be_changed_after_one_line(load_text):
    text = f"{REST}model: {{target: groq/a, optimizer: openai/b}}"
    target = load_text(text, "model.target.temperature=0.5").config.model.target
    assert (target.provider, target.model, target.temperature) == ("groq", "a", 0.5)


def test_another_provider_does_not_inherit_the_address(load_text, write):
    vllm = "{provider: vllm, model: a, base_url: 'http://h/v1'}"
    write(f"{REST}model:\n  target: {vllm}\n  optimizer: openai/b\n", "base.yaml")
    text = "_base_: base.yaml\nmodel: {target: {provider: groq, model: c}}\n"
    target = load_text(text).config.model.target
    assert (target.provider, target.base_url) == ("groq", None)


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("antropic/claude", "model.target.provider: 'antropic' is not one of"),
        ("antropic/claude", "did you mean 'anthropic'?"),
        ("gpt-5.5", "expected provider/model, such as openai/gpt-5.5, or a mapping, found"),
        ("/m", "expected provider/model"),
    ],
)
def test_what_cannot_be_is_told_with_what_could(complaint, role, words):
    assert words in complaint(f"{REST}model: {{target: {role}, optimizer: openai/b}}")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"provider": "azure"}, "`provider: azure` needs a base_url"),
        ({"provider": "compatible"}, "`provider: compatible` needs a base_url"),
        ({"provider": "openai", "azure": {}}, "`azure` is for `provider: azure`"),
        ({"provider": "qwen", "region": "chn"}, "no region 'chn'; did you mean 'cn'"),
        ({"provider": "groq", "region": "us"}, "Groq has no region 'us'; known: none"),
        ({"provider": "openai", "extra_body": {"stream": True}}, "answers are not streamed"),
        ({"provider": "groq", "thinking": True}, "Groq has no switch for `thinking: true`"),
        ({"provider": "ollama", "thinking": True}, "Ollama has no switch"),
        ({"provider": "qwen", "thinking": True}, "Qwen (Alibaba Cloud) has no switch"),
        ({"provider": "anthropic", "api": "responses"}, "no interface called responses"),
        ({"provider": "codex", "temperature": 1}, "a command has no temperature"),
        ({"provider": "copilot", "thinking": True}, "a command has no thinking"),
        ({"provider": "groq", "env": ["A"]}, "`env` is for `provider: command`"),
        ({"provider": "openai", "seed": 7}, "`seed` is for `provider: simulated`"),
    ],
)
def test_a_setting_that_the_provider_lacks_is_refused(fields, words):
    with pytest.raises(ValidationError) as caught:
        ModelRole.model_validate({"model": "m", **fields})
    assert words in str(caught.value)


AZURE = "https://x.openai.azure.com"
DEPLOYED = {"base_url": f"{AZURE}/openai/v1", "azure": {"api_version": "2024-12-01-preview"}}
NEWER = {"base_url": AZURE, "api": "responses", "azure": {"api_version": "2025-04-01-preview"}}


@pytest.mark.parametrize(
    ("provider", "fields", "url"),
    [
        ("groq", {}, "https://api.groq.com/openai/v1"),
        ("groq", {"base_url": "http://h/v1/"}, "http://h/v1"),
        ("qwen", {}, "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        ("qwen", {"region": "cn"}, "https://dashscope.aliyuncs.com/compatible-mode/v1"),
        ("qwen", {"region": "us"}, "https://dashscope-us.aliyuncs.com/compatible-mode/v1"),
        ("minimax", {}, "https://api.minimax.io/v1"),
        ("minimax", {"region": "cn"}, "https://api.minimaxi.com/v1"),
        ("minimax", {"region": "cn", "base_url": "http://h"}, "http://h"),
        ("anthropic", {"base_url": "http://h/v1"}, "http://h"),
        ("azure", {"base_url": f"{AZURE}/"}, f"{AZURE}/openai/v1"),
        ("azure", {"model": "my model", **DEPLOYED}, f"{AZURE}/openai/deployments/my%20model"),
        ("azure", NEWER, f"{AZURE}/openai"),
    ],
)
def test_the_address_comes_with_the_provider_and_its_region(provider, fields, url):
    role = ModelRole.model_validate({"provider": provider, "model": "m", **fields})
    assert base_url_of(role) == url


@pytest.mark.parametrize(
    ("provider", "more", "variable"),
    [
        ("openai", {}, "OPENAI_API_KEY"),
        ("openai", {"base_url": "https://api.openai.com/v1/"}, "OPENAI_API_KEY"),
        ("openai", {"base_url": "http://localhost:8000/v1"}, None),
        ("openai", {"api_key_env": "MINE"}, "MINE"),
        ("groq", {}, "GROQ_API_KEY"),
        ("groq", {"base_url": "https://api.groq.com/openai/v1/"}, "GROQ_API_KEY"),
        ("groq", {"base_url": "https://elsewhere/v1"}, None),
        ("groq", {"base_url": "https://elsewhere/v1", "api_key_env": "K"}, "K"),
        ("anthropic", {"base_url": "https://elsewhere"}, None),
        ("minimax", {"region": "cn"}, "MINIMAX_API_KEY"),
        ("vllm", {"base_url": "http://gpu:8000/v1"}, "VLLM_API_KEY"),
        ("azure", {"base_url": "https://x"}, "AZURE_OPENAI_API_KEY"),
        ("azure", {"base_url": "https://x", "azure": {"auth": "azure_cli"}}, None),
        ("compatible", {"base_url": "https://x"}, None),
        ("simulated", {}, None),
        ("codex", {}, None),
    ],
)
def test_a_key_goes_to_its_own_provider_alone(provider, more, variable):
    assert role(provider, **more).key_variable == variable
