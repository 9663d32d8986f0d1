import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from skillopt_ci.errors import BudgetExhausted, ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.progress import Note, Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.replies import WireError

Asked = Callable[..., int | Lost]


def number(text: str) -> int:
    if not text.strip().isdigit():
        raise WireError("Expected a number.")
    return int(text)


@pytest.fixture
def asked(prompts: Prompts, observer: Observer) -> Asked:
    def run(client: Any, **more: Any) -> int | Lost:
        chat = OptimizerChat(client, prompts, observer)
        return asyncio.run(chat.ask("minibatch 1/2", "how many?", number, prompt="ranking", **more))

    return run


def test_a_good_reply_is_parsed(scripted, asked, prompts):
    client = scripted(lambda request: "7")
    assert asked(client) == 7
    (request,) = client.requests
    assert (request.stage, request.max_output_tokens) == ("ranking", 16_384)
    system = Message("system", prompts.text("ranking"))
    assert request.messages == (system, Message("user", "how many?"))


def test_a_bad_reply_gets_one_retry_that_shows_it(scripted, asked, events):
    client = scripted(lambda request: "8" if len(request.messages) > 2 else "eight")
    assert asked(client) == 8
    shown = client.requests[1].messages
    assert shown[:2] == client.requests[0].messages
    assert shown[2] == Message("assistant", "eight")
    assert "Expected a number." in shown[3].content
    assert events == []


def test_a_second_bad_reply_is_lost_with_a_note(scripted, asked, events):
    client = scripted(lambda request: "none")
    result = asked(client)
    assert isinstance(result, Lost)
    assert result.reply == client.requests[1].messages[2].content
    assert len(client.requests) == 2
    note = "minibatch 1/2: no usable answer. Expected a number."
    assert events == [Note(note, level="warning")]


def test_an_empty_reply_is_shown_as_a_word(scripted, asked):
    client = scripted(lambda request: "")
    asked(client)
    assert client.requests[1].messages[2].content == "(empty reply)"


@pytest.mark.parametrize("error", [ModelRefusal("filtered"), ModelUnavailable("down")])
def test_a_refusal_or_an_outage_is_lost_with_a_note(error, scripted, asked, events):
    assert asked(scripted(lambda request: error)) == Lost(error)
    assert len(events) == 1


@pytest.mark.parametrize("error", [ModelSetupError("no key"), BudgetExhausted("calls")])
def test_what_no_other_question_can_survive_is_raised(error, scripted, asked):
    with pytest.raises(type(error)):
        asked(scripted(lambda request: error))


def test_an_outage_is_raised_where_the_step_depends_on_the_answer(scripted, asked, events):
    with pytest.raises(ModelUnavailable):
        asked(scripted(lambda request: ModelUnavailable("down")), vital=True)
    assert len(events) == 1


def test_a_reply_cut_off_is_told_so(scripted, asked):
    client = scripted(lambda request: "{", finish_reason="length")
    asked(client)
    assert "cut off at the token limit" in client.requests[1].messages[-1].content
