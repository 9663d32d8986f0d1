"""Reading the body of a chat completion, tolerant of what compatible servers leave out."""

import json
import re
from collections.abc import Collection, Mapping

from pydantic import BaseModel, ConfigDict

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.answer_body import parsed
from skillopt_ci.model.client import ChatReply, ChatRequest, ModelRefusal, estimated_usage
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.model.transient import TransientFailure
from skillopt_ci.model.usage import Usage

_BAD_GATEWAY = 502
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


class _ChatPart(BaseModel):
    text: str | None = None


class _Function(BaseModel):
    name: str = ""
    arguments: str | None = None


class _Call(BaseModel):
    id: str | None = None
    function: _Function = _Function()
    extra_content: dict[str, object] | None = None


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    content: str | list[_ChatPart] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _ChatDetails(BaseModel):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _ChatUsage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _ChatDetails | None = None
    completion_tokens_details: _ChatDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cost: float | None = None


class _ChatError(BaseModel):
    message: str = ""
    code: int | str | None = None


class _Completion(BaseModel):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _ChatUsage | None = None
    error: _ChatError | None = None


def read_reply(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """The reply in ``body``, or the error that some servers put into a body of status 200.

    Raises :class:`TransientFailure` for a body that is no completion (cut off, not JSON, without
    choices) and :class:`ModelRefusal` if a content filter ended the answer.
    """
    completion = parsed(_Completion, body, "chat completion")
    if not completion.choices:
        if completion.error is None:
            raise TransientFailure("the response holds no choices")
        return _error_in_body(completion.error)
    choice = completion.choices[0]
    text = _text(choice.message)
    usage = _reported(completion.usage) or estimated_usage(request, text)
    if choice.finish_reason == "content_filter":
        raise ModelRefusal("The content filter ended the answer", usage=usage)
    return ChatReply(
        text,
        choice.finish_reason or "stop",
        completion.model or config.model,
        usage,
        tool_calls=_chat_tool_calls(choice.message, config.preset.carried),
    )


def _error_in_body(error: _ChatError) -> ServerError:
    status = error.code if isinstance(error.code, int) else _BAD_GATEWAY
    return ServerError(status, error.message, code=str(error.code or ""))


def _text(message: _Message) -> str:
    if isinstance(message.content, list):
        return "".join(part.text or "" for part in message.content)
    # Servers that do not part thoughts from the answer put them in front of it.
    return _THOUGHTS.sub("", message.content or "", count=1) or message.refusal or ""


def _chat_tool_calls(message: _Message, carried: Collection[str]) -> tuple[ToolCall, ...]:
    """The calls; what must come back with all of them is the state of the first."""
    extra = message.model_extra or {}
    own = {name: extra[name] for name in carried if extra.get(name)}
    calls = message.tool_calls or ()
    states = [
        {**(own if number == 0 else {}), **_signed(call.extra_content)}
        for number, call in enumerate(calls)
    ]
    # Some compatible servers leave the id out; a result must be able to name its call.
    return tuple(
        ToolCall(
            call.id or f"call_{number}",
            call.function.name,
            call.function.arguments or "",
            json.dumps(state) if state else "",
        )
        for number, (call, state) in enumerate(zip(calls, states, strict=True))
    )


def _signed(extra_content: Mapping[str, object] | None) -> dict[str, object]:
    return {"extra_content": extra_content} if extra_content else {}


def _reported(usage: _ChatUsage | None) -> Usage | None:
    if usage is None or not usage.prompt_tokens or usage.completion_tokens is None:
        return None
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        calls=1,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=(prompt and prompt.cached_tokens) or usage.prompt_cache_hit_tokens or 0,
        reasoning_tokens=(completion and completion.reasoning_tokens) or 0,
        cost_usd=usage.cost if usage.cost and usage.cost > 0 else None,
    )
