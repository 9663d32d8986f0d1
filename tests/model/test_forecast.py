from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.messages import Image, Message
from skillopt_ci.model.budget import Forecast
from skillopt_ci.model.types import ChatRequest, Role, Usage


def request(text: str = "x" * 300, stage: str = "rollout", **changes: Any) -> ChatRequest:
    return ChatRequest(Role.TARGET, stage, (Message("user", text),), **changes)


def test_before_any_answer_the_limit_or_a_long_answer_is_expected():
    forecast = Forecast()
    assert forecast.expect(request()).completion_tokens == 4096
    assert forecast.expect(request(max_output_tokens=50)).completion_tokens == 50
    assert 100 <= forecast.expect(request()).prompt_tokens <= 150


def test_afterwards_the_longest_answer_of_the_stage_is():
    forecast = Forecast()
    for length in (10, 30, 20):
        forecast.learn(request(), Usage(1, 100, length))
    assert forecast.expect(request()).completion_tokens == 30
    assert forecast.expect(request(stage="test")).completion_tokens == 4096


def test_a_picture_counts():
    picture = Message("user", "x", (Image("image/png", "AAAA"),))
    shown = ChatRequest(Role.TARGET, "rollout", (picture,))
    assert Forecast().expect(shown).prompt_tokens > 1_000


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3_000)), min_size=1))
def test_no_call_like_an_earlier_one_is_underestimated(seen):
    forecast, prompt = Forecast(), request()
    for tokens, answer in seen:
        forecast.learn(prompt, Usage(1, tokens, answer))
    expected = forecast.expect(prompt)
    for tokens, answer in seen:
        assert expected.tokens >= tokens + answer
