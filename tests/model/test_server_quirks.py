from typing import Any

import pytest

from skillopt_ci.config.models import PROVIDERS, ModelRole
from skillopt_ci.model.openai_provider import CHAT_WORDS, chat_body
from skillopt_ci.model.providers import ServerError, settings_of
from skillopt_ci.model.types import ChatRequest, ReplySchema

SCHEMA = ReplySchema("answer", {"type": "object", "properties": {}})


def role(**changes: Any) -> ModelRole:
    return ModelRole.model_validate({"provider": "openai", "model": "m", **changes})


def sent(config: ModelRole, request: ChatRequest, *refused: str) -> dict[str, object]:
    body = chat_body(config, request, settings_of(config, request, refused))
    return {name: value for name, value in body.items() if name not in ("model", "messages")}


def test_only_what_is_set_is_sent(ask):
    assert sent(role(), ask()) == {}


def test_what_is_set_is_sent_with_the_further_fields(ask):
    config = role(temperature=0, reasoning_effort="low", extra_body={"top_k": 3})
    assert sent(config, ask(max_output_tokens=9)) == {
        "max_completion_tokens": 9,
        "temperature": 0,
        "reasoning_effort": "low",
        "top_k": 3,
    }


def test_what_was_refused_is_left_out_and_the_limit_renamed(ask):
    config = role(temperature=1, max_output_tokens=2)
    assert sent(config, ask(), "temperature") == {"max_completion_tokens": 2}
    assert sent(config, ask(), "max_completion_tokens") == {"max_tokens": 2, "temperature": 1}


def test_the_provider_names_the_limit_unless_the_role_does(ask):
    own = role(
        provider="compatible", base_url="http://localhost/v1", token_limit_field="max_tokens"
    )
    limited = ask(max_output_tokens=2)
    assert sent(role(), limited) == {"max_completion_tokens": 2}
    assert sent(role(provider="ollama"), limited) == sent(own, limited) == {"max_tokens": 2}


def test_a_schema_is_sent_as_the_provider_understands_it(ask):
    request = ask(reply_schema=SCHEMA)
    held = {"name": "answer", "schema": dict(SCHEMA.schema), "strict": True}
    assert sent(role(), request)["response_format"] == {"type": "json_schema", "json_schema": held}
    assert sent(role(provider="deepseek"), request)["response_format"] == {"type": "json_object"}
    assert "response_format" not in sent(role(provider="minimax"), request)
    assert "response_format" not in sent(role(structured_output="off"), request)


@pytest.mark.parametrize(
    ("provider", "wish", "fields"),
    [
        ("qwen", False, {"enable_thinking": False}),
        ("minimax", True, {"thinking": {"type": "adaptive"}, "reasoning_split": True}),
        ("minimax", None, {"reasoning_split": True}),
        ("deepseek", False, {"thinking": {"type": "disabled"}}),
        ("openrouter", True, {"reasoning": {"enabled": True}}),
        ("vllm", False, {"chat_template_kwargs": {"enable_thinking": False}}),
        ("llamacpp", True, {"chat_template_kwargs": {"enable_thinking": True}}),
        ("ollama", False, {"reasoning_effort": "none"}),
    ],
)
def test_each_provider_has_its_own_switch_for_thinking(ask, provider, wish, fields):
    assert sent(role(provider=provider, thinking=wish), ask()) == fields


@pytest.mark.parametrize(
    ("message", "fields", "refused"),
    [
        ("Unsupported value: 'temperature' does not support 0.7", {}, "temperature"),
        ("no", {"code": "unsupported_parameter", "param": "reasoning_effort"}, "reasoning_effort"),
        ("Unrecognized request argument supplied: reasoning_effort", {}, "reasoning_effort"),
        (
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            {},
            "max_tokens",
        ),
        ("extra_forbidden: body.max_tokens", {}, "max_tokens"),
        ("max_tokens is too large: this model supports at most 4096", {}, None),
        ("Unsupported value: 'stop'", {"param": "stop"}, None),
        ("'response_format.type' json_schema is not supported", {}, "response_format"),
        ("Invalid schema for response_format 'answer'", {}, "response_format"),
        ("This model does not support structured outputs", {}, "response_format"),
    ],
)
def test_the_refused_setting_is_recognised(message, fields, refused):
    used = ("max_tokens", "temperature", "reasoning_effort", "response_format")
    assert ServerError(400, message, **fields).refused_setting(used, CHAT_WORDS) == refused


def test_only_bad_requests_and_what_was_sent_count():
    error = ServerError(500, "temperature is not supported")
    assert error.refused_setting(["temperature"], CHAT_WORDS) is None
    assert ServerError(400, "temperature is not supported").refused_setting([], CHAT_WORDS) is None


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_preset_is_whole(name):
    preset = PROVIDERS[name]
    if preset.protocol == "command":
        assert name == "command" or "{model}" in preset.program
    elif preset.protocol != "simulated" and name not in ("azure", "compatible"):
        assert preset.base_url.startswith(("https://", "http://localhost:"))
        assert preset.key
        assert preset.key_optional == preset.base_url.startswith("http://localhost")
        assert set(preset.regions.values()) <= {preset.base_url, *preset.regions.values()}
        assert not preset.regions or preset.base_url in preset.regions.values()
