from typing import Any

import pytest

from skillopt_ci.config.models import Azure, ModelRole
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.model.providers import ServerError
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.types import ModelRefusal


def meaning(status: int, message: str = "", base_url: str = "", **fields: Any) -> SkilloptError:
    config = ModelRole(provider="openai", model="gpt-x", base_url=base_url or None)
    return ServerError(status, message, **fields).exception("model.target", config)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
def test_failures_that_may_pass_are_transient_and_tell_of_overload(status):
    outcome = meaning(status, "busy", retry_after=3.0)
    assert isinstance(outcome, TransientFailure)
    assert (outcome.retry_after, str(outcome)) == (3.0, f"status {status}: busy")
    assert outcome.overloaded == (status in (429, 503, 529))


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (429, {"code": "insufficient_quota"}),
        (429, {"type": "insufficient_quota"}),
        (402, {}),
    ],
)
def test_an_empty_account_is_not_waited_for(status, fields):
    outcome = meaning(status, "pay", **fields)
    assert isinstance(outcome, ModelSetupError)
    assert "no quota left" in str(outcome)


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "", "content_filter"),
        (400, "", "invalid_prompt"),
        (400, "triggered our content management policy", ""),
        (403, "your input was flagged", ""),
        (400, "", "context_length_exceeded"),
        (400, "maximum context length is 8192 tokens", ""),
        (400, "the request exceeds the available context size", ""),
        (400, "prompt is too long: 9 tokens", ""),
        (413, "", ""),
    ],
)
def test_what_the_prompt_causes_is_a_refusal(status, message, code):
    assert isinstance(meaning(status, message, code=code), ModelRefusal)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_role_variable_and_server(status):
    outcome = meaning(status, "bad key")
    assert isinstance(outcome, ModelSetupError)
    for part in ("model.target", "OPENAI_API_KEY", "api.openai.com", "bad key", "api_key_env"):
        assert part in str(outcome)


def test_a_server_that_wants_a_key_after_all_says_how_to_give_one():
    outcome = meaning(401, "no key", base_url="https://llm.example/v1")
    assert "Name the environment variable that holds it in model.target.api_key_env" in str(outcome)


@pytest.mark.parametrize("status", [404, 410])
def test_a_missing_model_names_model_and_server(status):
    outcome = meaning(status, "no such model", base_url="https://llm.example/v1")
    assert isinstance(outcome, ModelSetupError)
    assert "'gpt-x' at https://llm.example/v1" in str(outcome)


def test_any_other_refusal_stops_the_run_with_the_server_s_words():
    outcome = meaning(400, "top_k must be positive", code="invalid_value")
    assert isinstance(outcome, ModelSetupError)
    assert "status 400: top_k must be positive" in str(outcome)


def test_who_signed_in_and_is_refused_is_told_which_role_to_be_given():
    config = ModelRole(
        provider="azure",
        model="m",
        base_url="https://x.openai.azure.com",
        azure=Azure(auth="azure_cli"),
    )
    told = str(ServerError(401, "denied").exception("model.target", config))
    assert "refused who signed in by azure_cli" in told
    assert "Cognitive Services OpenAI User" in told
