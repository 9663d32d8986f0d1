from typing import Any

import pytest

from skillopt_ci.model.openai_dialect import Dialect, parameters, refused_parameter
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.settings.model import ModelRole

MODERN = Dialect("max_completion_tokens")


def role(**changes: Any) -> ModelRole:
    return ModelRole.model_validate({"provider": "openai", "model": "m", **changes})


def test_only_what_is_set_is_sent(ask: Any) -> None:
    assert parameters(role(), ask(), MODERN) == {}


def test_what_is_set_is_sent_with_the_further_fields(ask: Any) -> None:
    config = role(temperature=0, reasoning_effort="low", extra_body={"top_k": 3})
    assert parameters(config, ask(max_output_tokens=9), MODERN) == {
        "max_completion_tokens": 9,
        "temperature": 0,
        "reasoning_effort": "low",
        "top_k": 3,
    }


def test_a_dropped_parameter_is_left_out(ask: Any) -> None:
    learned = MODERN.without("temperature")
    assert learned is not None
    assert parameters(role(temperature=1, max_output_tokens=2), ask(), learned) == {
        "max_completion_tokens": 2
    }


def test_the_limit_is_renamed_once() -> None:
    renamed = MODERN.without("max_completion_tokens")
    assert renamed == Dialect("max_tokens", renamed=True)
    assert renamed.without("max_tokens") is None


def test_what_another_call_learned_already_is_kept() -> None:
    renamed = Dialect("max_tokens", renamed=True)
    assert renamed.without("max_completion_tokens") == renamed


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
    ],
)
def test_the_refused_parameter_is_recognised(
    message: str, fields: dict[str, Any], refused: str | None
) -> None:
    sent = ("max_tokens", "temperature", "reasoning_effort")
    assert refused_parameter(ServerError(400, message, **fields), sent) == refused


def test_only_bad_requests_and_what_was_sent_count() -> None:
    error = ServerError(500, "temperature is not supported")
    assert refused_parameter(error, ["temperature"]) is None
    assert refused_parameter(ServerError(400, "temperature is not supported"), []) is None
