import asyncio
from typing import Any

import pytest

from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.middleware import RedactingClient
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, Role, Usage
from skillopt_ci.redaction import HIDDEN, Redactor

SECRET = "sk-planted-0123456789"
CALL = ToolCall("1", "run", f'{{"key": "{SECRET}"}}')


def complete(inner: Any, request: ChatRequest) -> ChatReply:
    return asyncio.run(RedactingClient(inner, Redactor([SECRET])).complete(request))


def test_prompts_and_answers_carry_no_secret(scripted: Any) -> None:
    reply = ChatReply(f"a {SECRET}", "stop", "m", Usage(1), f"trace {SECRET}", (CALL,))
    inner = scripted(reply)
    messages = (
        Message("user", f"use {SECRET}"),
        Message("assistant", "", tool_calls=(CALL,)),
    )
    heard = complete(inner, ChatRequest(Role.TARGET, "rollout", messages))
    assert (heard.text, heard.trace) == (f"a {HIDDEN}", f"trace {HIDDEN}")
    assert heard.tool_calls[0].arguments == f'{{"key": "{HIDDEN}"}}'
    (asked,) = inner.asked
    assert SECRET not in str(asked)
    assert asked.messages[0].content == f"use {HIDDEN}"


def test_errors_carry_no_secret_and_stay_what_they_are(scripted: Any) -> None:
    refusal = ModelRefusal(f"no {SECRET}", hint=f"try {SECRET}", usage=Usage(1, 7))
    request = ChatRequest(Role.TARGET, "rollout", (Message("user", "hi"),))
    with pytest.raises(ModelRefusal) as caught:
        complete(scripted(refusal), request)
    assert str(caught.value) == f"no {HIDDEN}\ntry {HIDDEN}"
    assert SECRET not in repr(caught.value)
    assert caught.value.usage == Usage(1, 7)


def test_what_holds_no_secret_passes_unchanged(scripted: Any) -> None:
    reply = ChatReply("plain", "stop", "m", Usage(1))
    request = ChatRequest(Role.JUDGE, "judge", (Message("user", "hi"),))
    inner = scripted(reply)
    assert complete(inner, request) == reply
    assert inner.asked == [request]
