"""Reading the body of a chat completion, tolerant of what compatible servers leave out."""

import json
import math
from dataclasses import replace

from pydantic import BaseModel, ValidationError

from skillopt_ci.chat import ToolCall
from skillopt_ci.model.client import ChatReply, ChatRequest, ModelRefusal, Usage
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.model.transient import TransientFailure
from skillopt_ci.settings.model import ModelRole, Price

_BAD_GATEWAY = 502
_CHARACTERS_PER_TOKEN = 4


class _Part(BaseModel):
    text: str | None = None


class _Function(BaseModel):
    name: str = ""
    arguments: str | None = None


class _Call(BaseModel):
    id: str | None = None
    function: _Function = _Function()


class _Message(BaseModel):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Details(BaseModel):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Error(BaseModel):
    message: str = ""
    code: int | str | None = None


class _Completion(BaseModel):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: _Error | None = None


def read_reply(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """The reply in ``body``, or the error that some servers put into a body of status 200.

    Raises :class:`TransientFailure` for a body that is no completion (cut off, not JSON, without
    choices) and :class:`ModelRefusal` if a content filter ended the answer.
    """
    completion = _parse(body)
    if not completion.choices:
        if completion.error is None:
            raise TransientFailure("the response holds no choices")
        return _error_in_body(completion.error)
    choice = completion.choices[0]
    text = _text(choice.message)
    usage = _usage(completion.usage, request, text, config.price)
    if choice.finish_reason == "content_filter":
        raise ModelRefusal("The content filter ended the answer", usage=usage)
    return ChatReply(
        text,
        choice.finish_reason or "stop",
        completion.model or config.model,
        usage,
        tool_calls=_tool_calls(choice.message),
    )


def well_formed(text: str) -> str:
    """``text`` with lone surrogates, which no UTF-8 file or request can hold, replaced by ``?``."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def cost_usd(usage: Usage, price: Price | None) -> float | None:
    """What ``usage`` costs in US dollars; None without a price."""
    if price is None:
        return None
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    fresh = (usage.prompt_tokens - cached) * price.input
    return (fresh + cached * cached_price + usage.completion_tokens * price.output) / 1e6


def _parse(body: bytes) -> _Completion:
    try:
        # By way of text, because pydantic refuses the lone surrogates of a text cut in an escape.
        document = well_formed(json.dumps(json.loads(body), ensure_ascii=False))
        return _Completion.model_validate_json(document)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise TransientFailure(f"the response is no chat completion: {detail}") from error
    except ValueError as error:
        raise TransientFailure(f"the response is not JSON: {error}") from error


def _error_in_body(error: _Error) -> ServerError:
    status = error.code if isinstance(error.code, int) else _BAD_GATEWAY
    return ServerError(status, error.message, code=str(error.code or ""))


def _text(message: _Message) -> str:
    if isinstance(message.content, list):
        return "".join(part.text or "" for part in message.content)
    return message.content or message.refusal or ""


def _tool_calls(message: _Message) -> tuple[ToolCall, ...]:
    # Some compatible servers leave the id out; a result must be able to name its call.
    return tuple(
        ToolCall(call.id or f"call_{number}", call.function.name, call.function.arguments or "")
        for number, call in enumerate(message.tool_calls or ())
    )


def _usage(reported: _Usage | None, request: ChatRequest, text: str, price: Price | None) -> Usage:
    usage = _reported(reported) or estimated_usage(request, text)
    return replace(usage, cost_usd=cost_usd(usage, price))


def _reported(usage: _Usage | None) -> Usage | None:
    if usage is None or not usage.prompt_tokens or usage.completion_tokens is None:
        return None
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        calls=1,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=(prompt and prompt.cached_tokens) or 0,
        reasoning_tokens=(completion and completion.reasoning_tokens) or 0,
    )


def estimated_usage(request: ChatRequest, text: str) -> Usage:
    """The usage of one call, counted from the length of its texts."""
    characters = sum(len(message.content) for message in request.messages)
    return Usage(
        calls=1,
        prompt_tokens=math.ceil(characters / _CHARACTERS_PER_TOKEN),
        completion_tokens=math.ceil(len(text) / _CHARACTERS_PER_TOKEN),
        estimated=True,
    )
