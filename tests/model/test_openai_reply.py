import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.models import ModelRole
from skillopt_ci.model.openai_provider import read_reply, read_response
from skillopt_ci.model.providers import ServerError, well_formed
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.types import ChatReply, Usage

CONFIG = ModelRole(provider="openai", model="m")


def body(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


def read(ask: Any, content: bytes) -> ChatReply:
    answer = read_reply(content, ask("12345678"), CONFIG)
    assert isinstance(answer, ChatReply)
    return answer


def test_usage_is_read_in_full(ask):
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    answer = read(ask, body({"content": "x"}, usage=usage, model="m-2026"))
    assert answer.model == "m-2026"
    assert answer.usage == Usage(1, 100, 50, 40, 30, cost_usd=None)


@pytest.mark.parametrize(
    ("more", "cached", "cost"),
    [
        ({"prompt_cache_hit_tokens": 60}, 60, None),
        ({"prompt_tokens_details": None, "prompt_cache_hit_tokens": None}, 0, None),
        ({"cost": 0.0125}, 0, 0.0125),
        ({"cost": 0}, 0, None),
    ],
)
def test_what_single_providers_add_to_usage_is_read(ask, more, cached, cost):
    usage = {"prompt_tokens": 100, "completion_tokens": 50, **more}
    counted = read(ask, body({"content": "x"}, usage=usage)).usage
    assert (counted.cached_tokens, counted.cost_usd) == (cached, cost)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_missing_usage_is_estimated_and_says_so(ask, usage):
    counted = read(ask, body({"content": "abcde"}, usage=usage)).usage
    assert (counted.prompt_tokens, counted.completion_tokens, counted.estimated) == (2, 2, True)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": ""}, ""),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "thinking"}, {"type": "text", "text": "x"}]}, "x"),
        ({"content": "cut \ud83d"}, "cut ?"),
        ({"content": "<think>\nhm <think> again\n</think>\n\nx"}, "x"),
        ({"content": "x <think>hm</think>"}, "x <think>hm</think>"),
        ({"content": "<think>cut off"}, "<think>cut off"),
    ],
)
def test_text_is_found_where_servers_put_it(ask, message, text):
    assert read(ask, body(message)).text == text


@pytest.mark.parametrize(
    "content", [b"", b'{"choices": [{"mess', b"<html>", b"[]", b'{"choices": []}', b"\xff", b"{}"]
)
def test_what_is_no_completion_may_pass(ask, content):
    with pytest.raises(TransientFailure):
        read(ask, content)


@pytest.mark.parametrize(
    ("more", "kept"),
    [({}, False), ({"usage": {"prompt_tokens": 9, "completion_tokens": 3}}, True)],
)
def test_no_answer_may_pass_and_is_an_empty_one_in_the_end_if_it_was_billed(ask, more, kept):
    with pytest.raises(TransientFailure, match="no answer") as caught:
        read(ask, body({"content": None}, **more))
    assert (caught.value.reply is not None) is kept
    assert read(ask, body({"content": None}, finish="length", **more)).text == ""
    thought = {"output": [{"type": "reasoning"}], **more}
    with pytest.raises(TransientFailure, match="no answer"):
        read_response(json.dumps(thought).encode(), ask(), CONFIG)


@pytest.mark.parametrize(
    ("code", "status", "kind"), [(1004, 401, "1004"), (1027, 400, "content_filter"), (1, 502, "1")]
)
def test_minimax_says_its_errors_with_status_200(ask, code, status, kind):
    told = {"choices": None, "base_resp": {"status_code": code, "status_msg": "why"}}
    answer = read_reply(json.dumps(told).encode(), ask(), CONFIG)
    assert isinstance(answer, ServerError)
    assert (answer.status, answer.code, answer.message) == (status, kind, f"why ({code})")


@pytest.mark.parametrize("content", [None, "", []])
def test_minimax_error_beside_an_empty_message_is_an_error(ask, content):
    choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    told = {"choices": [choice], "base_resp": {"status_code": 1004, "status_msg": "login fail"}}
    answer = read_reply(json.dumps(told).encode(), ask(), CONFIG)
    assert isinstance(answer, ServerError)
    assert answer.status == 401
    choice["message"] = {"role": "assistant", "content": "said all the same"}
    answer = read_reply(json.dumps(told).encode(), ask(), CONFIG)
    assert isinstance(answer, ChatReply)


@pytest.mark.parametrize(("code", "status"), [(429, 429), ("server_error", 502), (None, 502)])
def test_an_error_in_a_good_status_is_an_error(ask, code, status):
    content = json.dumps({"error": {"message": "overloaded", "code": code}}).encode()
    answer = read_reply(content, ask(), CONFIG)
    assert isinstance(answer, ServerError)
    assert (answer.status, answer.message) == (status, "overloaded")


@given(st.text(st.characters()))
def test_any_text_becomes_encodable(text):
    assert well_formed(text).encode() is not None
