from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.cache import call_key
from skillopt_ci.model.types import ChatRequest, ReplySchema, Role, Tool, token_limit


def config(**changes: Any) -> ModelRole:
    return ModelRole.model_validate({"provider": "openai", "model": "m", **changes})


def request(prompt: str = "hi", **changes: Any) -> ChatRequest:
    fields: dict[str, Any] = {"role": Role.TARGET, "stage": "rollout", **changes}
    return ChatRequest(messages=(Message("user", prompt),), **fields)


KEY = call_key(config(), request())


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "n"},
        {"base_url": "http://localhost/v1"},
        {"temperature": 0.0},
        {"reasoning_effort": "low"},
        {"max_output_tokens": 5},
        {"extra_body": {"top_p": 1}},
        {"provider": "simulated"},
        {"provider": "groq"},
        {"api": "responses"},
        {"provider": "qwen", "thinking": False},
        {"provider": "codex"},
    ],
)
def test_what_determines_the_answer_changes_the_key(changes):
    assert call_key(config(**changes), request()) != KEY


@pytest.mark.parametrize(
    "changes",
    [
        {"api_key_env": "KEY"},
        {"timeout": 1},
        {"retries": 0},
        {"max_concurrency": 1},
        {"price": {"input": 1, "output": 1}},
        {"base_url": "https://api.openai.com/v1/"},
        {"token_limit_field": "max_tokens"},
    ],
)
def test_what_does_not_determine_the_answer_leaves_the_key(changes):
    assert call_key(config(**changes), request()) == KEY


def test_role_and_stage_are_labels_but_attempt_prompt_and_speaker_count():
    assert call_key(config(), request(role=Role.JUDGE, stage="judge")) == KEY
    system = ChatRequest(Role.TARGET, "rollout", (Message("system", "hi"),))
    others = [request(attempt=1), request("ho"), system]
    assert len({KEY, *(call_key(config(), other) for other in others)}) == 4


def test_the_seed_counts_for_simulated_models():
    keys = {call_key(config(provider="simulated", seed=seed), request()) for seed in range(3)}
    assert len(keys) == 3


@given(st.text(st.characters()))
def test_every_text_has_a_key(prompt):
    assert len(call_key(config(), request(prompt))) == 64


@pytest.mark.parametrize(
    ("role_limit", "request_limit", "effective"),
    [(None, None, None), (5, None, 5), (None, 7, 7), (5, 7, 5), (9, 7, 7)],
)
def test_the_smaller_limit_holds(role_limit, request_limit, effective):
    asked = request(max_output_tokens=request_limit)
    assert token_limit(config(max_output_tokens=role_limit), asked) == effective


def test_a_key_does_not_change_from_version_to_version():
    """Answers that were paid for stay usable: this value must never change."""
    assert KEY == "09a068f7276cf87ba193fa93f1944d2fa1a5bc2668885a8dd704fa230f13c5a2"


def test_a_region_and_an_older_interface_are_other_servers_whoever_vouches_for_us():
    azure = {"provider": "azure", "base_url": "https://x"}
    others = [
        config(provider="qwen"),
        config(provider="qwen", region="cn"),
        config(**azure),
        config(**azure, azure={"api_version": "a"}),
        config(**azure, azure={"api_version": "b"}),
    ]
    keys = [call_key(other, request()) for other in others]
    assert len(set(keys)) == 5
    assert call_key(config(**azure, azure={"auth": "azure_cli"}), request()) == keys[2]


def test_a_schema_counts_only_where_it_is_told():
    asked = request(reply_schema=ReplySchema("a", {"type": "object"}))
    assert call_key(config(), asked) != KEY
    assert call_key(config(structured_output="off"), asked) == KEY
    silent = config(provider="minimax")
    assert call_key(silent, asked) == call_key(silent, request())


def test_tools_pictures_and_what_calls_carry_count():
    tool = Tool("t", "d", {"type": "object"})
    call, signed = ToolCall("1", "t", "{}"), ToolCall("1", "t", "{}", "sig")
    messages = [
        (Message("user", "hi", (Image("image/png", "QQ=="),)),),
        (Message("user", "hi", (Image("image/png", "Qg=="),)),),
        (Message("assistant", "hi", tool_calls=(call,)),),
        (Message("assistant", "hi", tool_calls=(signed,)),),
        (Message("tool", "hi", tool_call_id="1"),),
    ]
    asked = [ChatRequest(Role.TARGET, "rollout", one) for one in messages]
    keys = {call_key(config(), one) for one in (*asked, request(), request(tools=(tool,)))}
    assert len(keys) == 7
