"""What a server answered at OpenAI's newer interface, Responses."""

import json

from pydantic import BaseModel, ConfigDict

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.answer_body import parsed
from skillopt_ci.model.client import ChatReply, ChatRequest, ModelRefusal, estimated_usage
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.model.usage import Usage

_FAULTS = {"rate_limit_exceeded": 429, "invalid_prompt": 400, "server_error": 500}
_BAD_REQUEST = 400


class _ResponsePart(BaseModel):
    type: str = ""
    text: str | None = None
    refusal: str | None = None


class _Item(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: str = ""
    content: list[_ResponsePart] | None = None
    call_id: str | None = None
    name: str = ""
    arguments: str | None = None


class _ResponseDetails(BaseModel):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _ResponseUsage(BaseModel):
    input_tokens: int
    output_tokens: int
    input_tokens_details: _ResponseDetails | None = None
    output_tokens_details: _ResponseDetails | None = None


class _ResponseError(BaseModel):
    code: str | None = None
    message: str = ""


class _Incomplete(BaseModel):
    reason: str | None = None


class _Response(BaseModel):
    model: str | None = None
    status: str | None = None
    output: list[_Item]
    usage: _ResponseUsage | None = None
    error: _ResponseError | None = None
    incomplete_details: _Incomplete | None = None


def read_response(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """The reply in ``body``, or the error with which the server ended it.

    Raises :class:`~skillopt_ci.model.transient.TransientFailure` for a body that is no response and
    :class:`ModelRefusal` if a content filter ended the answer.
    """
    response = parsed(_Response, body, "response")
    if response.error is not None:
        code = response.error.code or ""
        status = _FAULTS.get(code, _BAD_REQUEST)
        return ServerError(status, response.error.message, code=code)
    text = "".join(
        part.text or part.refusal or ""
        for item in response.output
        if item.type == "message"
        for part in item.content or ()
    )
    usage = _usage(response.usage) or estimated_usage(request, text)
    ended = response.incomplete_details.reason if response.incomplete_details else None
    if ended == "content_filter":
        raise ModelRefusal("The content filter ended the answer", usage=usage)
    calls = _response_tool_calls(response.output)
    usual = "tool_calls" if calls else "stop"
    finish = "length" if ended == "max_output_tokens" else ended or usual
    return ChatReply(text, finish, response.model or config.model, usage, tool_calls=calls)


def _response_tool_calls(output: list[_Item]) -> tuple[ToolCall, ...]:
    """The calls; what was reasoned before them is the state of the first."""
    reasoned = [
        {"type": item.type, **(item.model_extra or {})}
        for item in output
        if item.type == "reasoning"
    ]
    calls = [item for item in output if item.type == "function_call"]
    return tuple(
        ToolCall(
            call.call_id or f"call_{number}",
            call.name,
            call.arguments or "",
            json.dumps(reasoned) if reasoned and number == 0 else "",
        )
        for number, call in enumerate(calls)
    )


def _usage(usage: _ResponseUsage | None) -> Usage | None:
    if usage is None:
        return None
    read, written = usage.input_tokens_details, usage.output_tokens_details
    return Usage(
        calls=1,
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=(read and read.cached_tokens) or 0,
        cache_write_tokens=(read and read.cache_write_tokens) or 0,
        reasoning_tokens=(written and written.reasoning_tokens) or 0,
        cost_usd=None,
    )
