"""The run's models behind OpenAI's protocol, asked with OpenAI's own client."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import openai
import pytest
from environments import ScriptedModel, reply
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.errors import EnvironmentFailure
from skillopt_ci.integrations.bridge import Conversation, read_request
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.chat_server import BadRequestError, reply_body
from skillopt_ci.model.providers import as_sent
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, ModelUnavailable, Role
from skillopt_ci.rollout.types import Asked, ModelSaid, Nudged, ToolUsed

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
PICTURES = st.lists(st.just(Image("image/png", "aGk=")), max_size=2).map(tuple)
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, TEXT), max_size=2).map(tuple)
MESSAGES = st.lists(
    st.builds(Message, st.just("user"), TEXT, PICTURES)
    | st.builds(Message, st.just("assistant"), TEXT, st.just(()), CALLS)
    | st.builds(Message, st.just("tool"), TEXT, st.just(()), st.just(()), TEXT),
    max_size=5,
)
ADD = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": ADD}
ELSEWHERE = {"type": "image_url", "image_url": {"url": "http://x/a.png"}}


@given(MESSAGES)
def test_messages_come_in_as_our_own_client_sends_them(messages):
    body = {"model": "target", "messages": [as_sent(message) for message in messages]}
    assert list(read_request(json.dumps(body).encode())[0].messages) == messages


def test_everything_that_determines_an_answer_is_read():
    schema = {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}}
    found, choices = read_request(
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
    assert (found.max_output_tokens, choices) == (7, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "gpt-9"}, "there is no model 'gpt-9'"),
        ({"stream": True}, "not streamed"),
        ({"messages": "hello"}, "not a chat completion: messages"),
        ({"messages": [{"role": "robot", "content": ""}]}, "'robot' is not a role"),
        ({"messages": [{"role": "user", "content": [ELSEWHERE]}]}, "data: URL"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(change, said):
    with pytest.raises(BadRequestError) as error:
        read_request(json.dumps({"model": "target", "messages": [], **change}).encode())
    assert said in str(error.value)


def test_replies_are_read_back_by_the_client():
    call = ToolCall("c", "add", '{"x": 1}')
    body = reply_body([reply("one", tool_calls=(call,)), reply("two")])
    found = openai.types.chat.ChatCompletion.model_validate(body)
    assert [choice.message.content for choice in found.choices] == ["one", "two"]
    (told,) = found.choices[0].message.tool_calls or []
    assert told.type == "function"
    assert (told.function.name, told.function.arguments) == ("add", '{"x": 1}')
    assert found.usage is not None
    assert found.usage.total_tokens == 30


def talk(
    script: Any, work: Callable[[openai.AsyncOpenAI], Awaitable[dict[str, Any]]], attempt: int = 3
) -> tuple[Conversation, list[Any], ScriptedModel]:
    """Let ``work`` ask a model that follows ``script``; return what was told."""
    model = ScriptedModel(script)
    conversation = Conversation(model, "rollout", attempt)

    async def served(job: Mapping[str, Any]) -> dict[str, Any]:
        async with client_of(**job) as client:
            return await work(client)

    async def run() -> list[Any]:
        async with aclosing(conversation.hold(served, {})) as told:
            return [step async for step in told]

    return conversation, asyncio.run(run()), model


def client_of(base_url: str, token: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=base_url, api_key=token, max_retries=0)


async def ask(client: openai.AsyncOpenAI, *said: Any, model: str = "target", **more: Any) -> Any:
    messages: Any = [{"role": "user", "content": m} if isinstance(m, str) else m for m in said]
    return await client.chat.completions.create(model=model, messages=messages, **more)


def test_an_attempts_talk_is_told_in_steps_with_its_tools():
    call = ToolCall("c1", "add", '{"x":1}', "signed")

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
    assert model.requests[1].messages[1].tool_calls[0].state == "signed"
    assert (conversation.result, conversation.turns) == ({"response": "done"}, 2)
    roles = [message.role for message in conversation.messages]
    assert roles == ["user", "assistant", "tool", "user", "assistant"]
    asked = {(one.stage, one.attempt, one.role) for one in model.requests}
    assert asked == {("rollout", 3, Role.TARGET)}


def test_asking_the_same_again_is_another_sample():
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        await ask(client, "a")
        both = await ask(client, "a", n=2)
        await ask(client, "b")
        return {"choices": len(both.choices)}

    conversation, _, model = talk(lambda _: "x", work)
    assert [one.attempt for one in model.requests] == [3, 1_000_003, 2_000_003, 3]
    assert conversation.result == {"choices": 2}


def test_the_judge_is_no_part_of_the_conversation():
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        await ask(client, "grade it", model="judge")
        return {}

    conversation, steps, model = talk(lambda _: "x", work)
    assert (steps, conversation.messages) == ([], ())
    assert (model.requests[0].role, model.requests[0].stage) == (Role.JUDGE, "judge")


@pytest.mark.parametrize("error", [ModelUnavailable("down"), ModelRefusal("filtered")])
def test_a_models_failure_ends_the_attempt_at_once_as_what_it_is(error):
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        await ask(client, "a")
        return {}

    with pytest.raises(type(error), match=str(error)):
        talk(lambda _: error, work)


@pytest.mark.parametrize("model", ["judge", "target"])
def test_a_refusal_to_grade_is_not_the_works(model):
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        await client.post("/grading", cast_to=object)
        await ask(client, "a", model=model)
        return {}

    with pytest.raises(EnvironmentFailure, match=f"the {model} refused to grade: filtered"):
        talk(lambda _: ModelRefusal("filtered"), work)


def test_only_the_attempts_own_token_and_the_chat_protocol_are_served():
    async def work(client: openai.AsyncOpenAI) -> dict[str, Any]:
        async with client_of(str(client.base_url), "guess") as stranger:
            with pytest.raises(openai.AuthenticationError, match="not open"):
                await ask(stranger, "a")
        with pytest.raises(openai.NotFoundError, match="/v1/responses"):
            await client.responses.create(model="target", input="a")
        with pytest.raises(openai.BadRequestError, match="there is no model"):
            await ask(client, "a", model="other")
        return {"base_url": str(client.base_url)}

    conversation, steps, model = talk(lambda _: "x", work)
    assert (steps, model.requests) == ([], [])

    async def late() -> None:
        async with client_of(conversation.result["base_url"], "any") as client:
            with pytest.raises(openai.APIConnectionError):
                await ask(client, "a")

    asyncio.run(late())


def test_the_end_of_the_work_ends_calls_under_way():
    asked, cancelled = asyncio.Event(), []

    class Slow(ScriptedModel):
        async def complete(self, request: ChatRequest) -> ChatReply:
            asked.set()
            try:
                return await asyncio.Future()
            except asyncio.CancelledError:
                cancelled.append(request)
                raise

    async def call(base_url: str, token: str) -> None:
        async with client_of(base_url, token) as client:
            with pytest.raises(openai.APIConnectionError):
                await ask(client, "a")

    async def run() -> None:
        calls = []

        async def served(job: Mapping[str, Any]) -> dict[str, Any]:
            calls.append(asyncio.create_task(call(**job)))
            await asked.wait()
            return {}

        conversation = Conversation(Slow(lambda _: "x"), "rollout", 3)
        async with aclosing(conversation.hold(served, {})) as told:
            assert [step async for step in told] == []
        await calls[0]

    asyncio.run(run())
    assert len(cancelled) == 1


CALL = (ToolCall("1", "run", "{}"),)


@pytest.mark.parametrize(
    ("asked", "turns", "calls", "grading", "works"),
    [(0, 0, (), 0, 0), (1, 0, (), 0, 1), (2, 2, (), 0, 0), (2, 2, CALL, 0, 1), (2, 2, CALL, 1, 0)],
)
def test_the_target_works_while_it_answers_or_its_tool_runs(asked, turns, calls, grading, works):
    talk = Conversation(ScriptedModel(str), "s", 0, turns=turns, asked=asked, grading=bool(grading))
    talk.messages = (Message("assistant", "", tool_calls=calls),)
    assert talk.works == bool(works)
