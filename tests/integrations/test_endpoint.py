"""The run's models behind OpenAI's protocol, asked with OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import openai
import pytest
from environments import ScriptedModel, reply
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.errors import EnvironmentFailure
from skillopt_ci.integrations.endpoint import (
    BadRequestError,
    Conversation,
    Endpoint,
    read_request,
    reply_body,
)
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.openai_provider import as_sent
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable, Role
from skillopt_ci.rollout.types import Asked, ModelSaid, Nudged, ToolUsed

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
MESSAGES = st.lists(
    st.builds(
        Message,
        st.just("user"),
        TEXT,
        st.lists(st.just(Image("image/png", "aGk=")), max_size=2).map(tuple),
    )
    | st.builds(
        Message,
        st.just("assistant"),
        TEXT,
        st.just(()),
        st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    )
    | st.builds(Message, st.just("tool"), TEXT, st.just(()), st.just(()), TEXT),
    max_size=5,
)
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}},
}


@given(MESSAGES)
def test_messages_come_in_as_our_own_client_sends_them(messages: list[Message]) -> None:
    body = {"model": "target", "messages": [as_sent(message) for message in messages]}
    assert list(read_request(json.dumps(body).encode()).messages) == messages


def test_everything_that_determines_an_answer_is_read() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
    found = read_request(
        json.dumps(
            {
                "model": "judge",
                "messages": [
                    {"role": "developer", "content": "one"},
                    {"role": "system", "content": [{"type": "text", "text": "two"}]},
                    {"role": "user", "content": "ask"},
                ],
                "tools": [TOOL],
                "response_format": schema,
                "max_tokens": 7,
                "n": 2,
                "temperature": 0.3,
            }
        ).encode()
    )
    assert found.role is Role.JUDGE
    assert found.messages == (Message("system", "one\n\ntwo"), Message("user", "ask"))
    assert [tool.name for tool in found.tools] == ["add"]
    assert found.reply_schema is not None
    assert found.reply_schema.name == "r"
    assert (found.max_output_tokens, found.choices) == (7, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "gpt-9"}, "there is no model 'gpt-9'"),
        ({"stream": True}, "not streamed"),
        ({"messages": "hello"}, "not a chat completion: messages"),
        ({"messages": [{"role": "robot", "content": ""}]}, "'robot' is not a role"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image_url", "image_url": {"url": "http://x/a.png"}}],
                    }
                ]
            },
            "data: URL",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(change: Any, said: str) -> None:
    body = {"model": "target", "messages": [], **change}
    with pytest.raises(BadRequestError) as error:
        read_request(json.dumps(body).encode())
    assert said in str(error.value)


def test_replies_are_read_back_by_the_client() -> None:
    call = ToolCall("c", "add", '{"x": 1}')
    body = reply_body([reply("one", tool_calls=(call,)), reply("two")])
    found = openai.types.chat.ChatCompletion.model_validate_json(body)
    assert [choice.message.content for choice in found.choices] == ["one", "two"]
    (told,) = found.choices[0].message.tool_calls or []
    assert told.type == "function"
    assert (told.function.name, told.function.arguments) == ("add", '{"x": 1}')
    assert found.usage is not None
    assert found.usage.total_tokens == 30


Work = Callable[[openai.AsyncOpenAI], Awaitable[dict[str, Any]]]


@asynccontextmanager
async def served() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    try:
        yield endpoint
    finally:
        endpoint.close()


def talk(
    script: Any, work: Work, attempt: int = 3
) -> tuple[Conversation, list[Any], ScriptedModel]:
    """Let ``work`` ask over a line of its own; return what was told."""

    async def run() -> tuple[Conversation, list[Any], ScriptedModel]:
        model = ScriptedModel(script)
        conversation = Conversation(model, "rollout", attempt)
        async with served() as endpoint:

            async def job(token: str) -> dict[str, Any]:
                async with client_of(endpoint, token) as client:
                    return await work(client)

            async with aclosing(conversation.hold(endpoint, job)) as told:  # type: ignore[type-var]
                steps = [step async for step in told]
        return conversation, steps, model

    return asyncio.run(run())


def client_of(endpoint: Endpoint, token: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=endpoint.base_url, api_key=token, max_retries=0)


async def ask(client: openai.AsyncOpenAI, *said: Any, model: str = "target", **more: Any) -> Any:
    messages: Any = [
        {"role": "user", "content": one} if isinstance(one, str) else one for one in said
    ]
    return await client.chat.completions.create(model=model, messages=messages, **more)


def test_an_attempts_talk_is_told_in_steps_with_its_tools() -> None:
    call = ToolCall("c1", "add", '{"x":1}')

    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        first = await ask(client, "add", tools=[TOOL])
        told = first.choices[0].message.model_dump(exclude_none=True)
        told["tool_calls"][0]["function"]["arguments"] = '{ "x": 1 }'  # written out anew
        done = {"role": "tool", "tool_call_id": "c1", "content": "2"}
        second = await ask(client, "add", told, done, "go on", tools=[TOOL])
        return {"response": second.choices[0].message.content}

    script = lambda request: "done" if len(request.messages) > 1 else reply("", tool_calls=(call,))  # noqa: E731
    conversation, steps, model = talk(script, work)
    assert [type(step) for step in steps] == [Asked, ModelSaid, ToolUsed, Nudged, ModelSaid]
    assert (steps[2].call, steps[2].output) == (call, "2")
    assert conversation.result == {"response": "done"}
    assert (conversation.turns, conversation.usage.calls) == (2, 2)
    assert [message.role for message in conversation.messages] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    assert {(one.stage, one.attempt, one.role) for one in model.requests} == {
        ("rollout", 3, Role.TARGET)
    }


def test_asking_the_same_again_is_another_sample() -> None:
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        await ask(client, "a")
        both = await ask(client, "a", n=2)
        await ask(client, "b")
        return {"choices": len(both.choices)}

    conversation, _, model = talk(lambda _: "x", work)
    assert [one.attempt for one in model.requests] == [3, 1_000_003, 2_000_003, 3]
    assert conversation.result == {"choices": 2}
    assert conversation.usage.calls == 4


def test_the_judge_is_no_part_of_the_conversation() -> None:
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        await ask(client, "grade it", model="judge")
        return {}

    conversation, steps, model = talk(lambda _: "x", work)
    assert (steps, conversation.messages) == ([], ())
    assert (model.requests[0].role, model.requests[0].stage) == (Role.JUDGE, "judge")


@pytest.mark.parametrize("error", [ModelUnavailable("down"), ModelRefusal("filtered")])
def test_a_models_failure_ends_the_attempt_at_once_as_what_it_is(error: Exception) -> None:
    begun = []

    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        begun.append(1)
        with pytest.raises(openai.APIConnectionError):
            await ask(client, "a")
        await asyncio.Event().wait()  # retries for ever
        return {}

    with pytest.raises(type(error), match=str(error)):
        talk(lambda _: error, work)
    assert begun


def test_a_judge_that_refuses_is_not_the_targets_refusal() -> None:
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        await ask(client, "a", model="judge")
        return {}

    with pytest.raises(EnvironmentFailure, match="the judge refused: filtered"):
        talk(lambda _: ModelRefusal("filtered"), work)


def test_only_an_open_line_is_answered() -> None:
    async def run() -> None:
        async with served() as endpoint:
            heard: list[object] = []
            line = endpoint.open_line(heard.append)
            async with client_of(endpoint, "guess") as stranger:
                with pytest.raises(openai.AuthenticationError, match="not open"):
                    await ask(stranger, "a")
            async with client_of(endpoint, line.token) as client:
                with pytest.raises(openai.NotFoundError, match="/v1/responses"):
                    await client.responses.create(model="target", input="a")
                with pytest.raises(openai.BadRequestError, match="there is no model"):
                    await ask(client, "a", model="other")
                endpoint.hang_up(line)
                with pytest.raises(openai.AuthenticationError):
                    await ask(client, "a")
            assert not heard

    asyncio.run(run())


def test_hanging_up_turns_away_who_waits() -> None:
    async def run() -> None:
        async with served() as endpoint:
            heard: asyncio.Queue[object] = asyncio.Queue()
            line = endpoint.open_line(heard.put_nowait)
            async with client_of(endpoint, line.token) as client:
                waiting = asyncio.create_task(ask(client, "a"))
                await heard.get()
                endpoint.hang_up(line)
                with pytest.raises(openai.APIConnectionError):
                    await waiting

    asyncio.run(run())
