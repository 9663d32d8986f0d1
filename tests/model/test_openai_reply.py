import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.model.client import ChatReply, ModelRefusal, Usage
from skillopt_ci.model.openai_reply import cost_usd, read_reply, well_formed
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.model.transient import TransientFailure
from skillopt_ci.settings.model import ModelRole, Price

CONFIG = ModelRole(provider="openai", model="m", price=Price(input=2, output=10, cached_input=1))


def body(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **more}).encode()


def read(ask: Any, content: bytes) -> ChatReply:
    answer = read_reply(content, ask("12345678"), CONFIG)
    assert isinstance(answer, ChatReply)
    return answer


def test_usage_is_read_in_full(ask: Any) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    answer = read(ask, body({"content": "x"}, usage=usage, model="m-2026"))
    assert answer.model == "m-2026"
    assert answer.usage == Usage(1, 100, 50, 40, 30, (60 * 2 + 40 * 1 + 50 * 10) / 1e6)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_missing_usage_is_estimated_and_says_so(ask: Any, usage: Any) -> None:
    counted = read(ask, body({"content": "abcde"}, usage=usage)).usage
    assert (counted.prompt_tokens, counted.completion_tokens, counted.estimated) == (2, 2, True)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None}, ""),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "thinking"}, {"type": "text", "text": "x"}]}, "x"),
        ({"content": "cut \ud83d"}, "cut ?"),
    ],
)
def test_text_is_found_where_servers_put_it(ask: Any, message: dict[str, Any], text: str) -> None:
    assert read(ask, body(message)).text == text


def test_an_answer_cut_at_the_limit_is_returned_as_it_is(ask: Any) -> None:
    answer = read(ask, body({"content": "part"}, finish="length"))
    assert (answer.text, answer.finish_reason) == ("part", "length")


def test_a_filtered_answer_is_a_refusal_that_was_paid_for(ask: Any) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 0}
    with pytest.raises(ModelRefusal) as caught:
        read(ask, body({"content": None}, finish="content_filter", usage=usage))
    assert caught.value.usage.prompt_tokens == 5


@pytest.mark.parametrize(
    "content", [b"", b'{"choices": [{"mess', b"<html>", b"[]", b'{"choices": []}', b"\xff", b"{}"]
)
def test_what_is_no_completion_may_pass(ask: Any, content: bytes) -> None:
    with pytest.raises(TransientFailure):
        read(ask, content)


@pytest.mark.parametrize(("code", "status"), [(429, 429), ("server_error", 502), (None, 502)])
def test_an_error_in_a_good_status_is_an_error(ask: Any, code: Any, status: int) -> None:
    content = json.dumps({"error": {"message": "overloaded", "code": code}}).encode()
    answer = read_reply(content, ask(), CONFIG)
    assert isinstance(answer, ServerError)
    assert (answer.status, answer.message) == (status, "overloaded")


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**8))
def test_cost_is_never_negative_and_never_above_the_uncached(
    prompt: int, completion: int, cached: int
) -> None:
    price = Price(input=3, output=5, cached_input=1)
    cost = cost_usd(Usage(1, prompt, completion, cached), price)
    dearest = cost_usd(Usage(1, prompt, completion), price)
    assert cost is not None
    assert dearest is not None
    assert 0 <= cost <= dearest


def test_cost_is_unknown_without_a_price() -> None:
    assert cost_usd(Usage(1, 10, 10), None) is None


@given(st.text(st.characters()))
def test_any_text_becomes_encodable(text: str) -> None:
    assert well_formed(text).encode() is not None
