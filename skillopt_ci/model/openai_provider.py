"""OpenAI's two interfaces, which most servers speak: requests and answers as JSON."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.providers import (
    ReportedUsage,
    ServerError,
    Wire,
    Words,
    as_sent,
    data_url,
    limit_in,
    no_answer,
    parsed,
    sent_as,
    state_of,
    usage_of,
    well_formed,
    with_thoughts,
)
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
    ModelRefusal,
    ReplySchema,
    Tool,
)


class _Part(BaseModel):
    """A piece of an answer's text, or of its refusal."""

    text: str | None = None
    refusal: str | None = None


class _Error(BaseModel):
    """What some servers put into a body of status 200."""

    message: str = ""
    code: int | str | None = None


def _function(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def _strict(schema: ReplySchema) -> dict[str, object]:
    return {"name": schema.name, "schema": dict(schema.schema), "strict": True}


# Chat completions, which most servers speak.

CHAT_WORDS: Words = MappingProxyType(
    {
        "max_completion_tokens": ("max_completion_tokens",),
        "max_tokens": ("max_tokens",),
        "temperature": ("temperature",),
        "reasoning_effort": ("reasoning_effort",),
        "response_format": ("response_format", "json_schema", "structured output"),
    }
)
_BAD_GATEWAY = 502
#: MiniMax's own codes for what others say by an HTTP status.
_STATUS_OF = {
    1001: 408,
    1002: 429,
    1004: 401,
    1008: 402,
    1026: 400,
    1027: 400,
    1039: 429,
    1041: 429,
    1042: 400,
    2013: 400,
    2049: 401,
    2056: 429,
}
_SENSITIVE = (1026, 1027)
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


def chat_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The whole body, what changes from call to call last; ``extra_body`` has the last word."""
    body: dict[str, object] = {"model": config.model}
    if request.tools:
        body["tools"] = [
            {"type": "function", "function": _function(tool)} for tool in request.tools
        ]
    body["messages"] = [as_sent(message) for message in request.messages]
    body |= settings
    if isinstance(schema := settings.get("response_format"), ReplySchema):
        kind = config.preset.structured
        held = {} if kind == "json_object" else {"json_schema": _strict(schema)}
        body["response_format"] = {"type": kind, **held}
    thinking = {} if config.thinking is None else config.preset.thinking[config.thinking]
    return {**body, **config.preset.body, **thinking, **config.extra_body}


class _Call(BaseModel):
    id: str | None = None
    name: str | None = sent_as("function.name")
    arguments: str | None = sent_as("function.arguments")
    extra_content: dict[str, object] | None = None


class _Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Completion(BaseModel):
    model: str | None = None
    message: _Message | None = sent_as("choices.0.message")
    finish_reason: str | None = sent_as("choices.0.finish_reason")
    usage: ReportedUsage | None = None
    error: _Error | None = None
    base_code: int | None = sent_as("base_resp.status_code")
    base_message: str | None = sent_as("base_resp.status_msg")


def read_reply(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """The reply in ``body``, or the error that some servers put into a body of status 200.

    Raises :class:`ModelRefusal` if a content filter ended the answer.
    """
    completion = parsed(_Completion, body, "chat completion")
    message = completion.message
    said_nothing = message is None or not (message.content or message.tool_calls)
    if said_nothing and (code := completion.base_code):
        kind = "content_filter" if code in _SENSITIVE else str(code)
        said = f"{completion.base_message} ({code})"
        return ServerError(_STATUS_OF.get(code, _BAD_GATEWAY), said, code=kind)
    if message is None:
        error = completion.error
        if error is None:
            raise TransientFailure("the response holds no choices")
        status = error.code if isinstance(error.code, int) else _BAD_GATEWAY
        return ServerError(status, error.message, code=str(error.code or ""))
    if isinstance(message.content, list):
        text = "".join(part.text or "" for part in message.content)
    else:
        # Servers that do not part thoughts from the answer put them in front of it.
        text = _THOUGHTS.sub("", message.content or "", count=1) or message.refusal or ""
    usage = usage_of(completion.usage, request, text)
    finish = completion.finish_reason or "stop"
    if finish == "content_filter":
        raise ModelRefusal("The content filter ended the answer", usage=usage)
    calls = _tool_calls(message, config.preset.carried)
    reply = ChatReply(text, finish, completion.model or config.model, usage, tool_calls=calls)
    if message.content is None and finish == "stop" and not (text or calls):
        raise no_answer(reply)
    return reply


def _tool_calls(message: _Message, carried: Collection[str]) -> tuple[ToolCall, ...]:
    """The calls; what must come back with all of them is the state of the first."""
    extra = message.model_extra or {}
    state = {name: extra[name] for name in carried if extra.get(name)}
    calls = []
    for number, call in enumerate(message.tool_calls or ()):
        if call.extra_content:
            state["extra_content"] = call.extra_content
        # Some compatible servers leave the id out; a result must be able to name its call.
        kept = json.dumps(state) if state else ""
        identity = call.id or f"call_{number}"
        calls.append(ToolCall(identity, call.name or "", call.arguments or "", kept))
        state = {}
    return tuple(calls)


CHAT = Wire("/chat/completions", chat_body, read_reply, CHAT_WORDS)

# The newer interface, Responses. Nothing is kept there, so what it reasoned comes back with calls.

RESPONSES_WORDS: Words = MappingProxyType(
    {
        "temperature": ("temperature",),
        "reasoning_effort": ("reasoning_effort", "reasoning.effort"),
        "response_format": ("text.format", "json_schema", "response_format"),
    }
)
_FAULTS = {"rate_limit_exceeded": 429, "server_error": 500}
_BAD_REQUEST = 400


def responses_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The whole body; ``extra_body`` has the last word."""
    system = [message.content for message in request.messages if message.role == "system"]
    body: dict[str, object] = {"model": config.model, "store": False}
    if system:
        body["instructions"] = well_formed("\n\n".join(system))
    if request.tools:
        body["tools"] = [
            {"type": "function", **_function(tool), "strict": False} for tool in request.tools
        ]
        body["include"] = ["reasoning.encrypted_content"]
    body["input"] = [item for message in request.messages for item in _items(message)]
    spelt = {"max_output_tokens": limit_in(settings), "temperature": settings.get("temperature")}
    body |= {name: value for name, value in spelt.items() if value is not None}
    if "reasoning_effort" in settings:
        body["reasoning"] = {"effort": settings["reasoning_effort"]}
    if isinstance(schema := settings.get("response_format"), ReplySchema):
        body["text"] = {"format": {"type": "json_schema", **_strict(schema)}}
    return body | config.extra_body


def _items(message: Message) -> Iterator[dict[str, object]]:
    text = well_formed(message.content)
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": text}
    elif message.role == "user":
        shown = {"type": "input_image", "detail": "auto"}
        pictures = [{**shown, "image_url": data_url(one)} for one in message.images]
        said = [{"type": "input_text", "text": text}, *pictures]
        yield {"role": "user", "content": said if pictures else text}
    elif message.role == "assistant":
        for call in message.tool_calls:
            yield from state_of(call)
        if text:
            yield {"role": "assistant", "content": text}
        for call in message.tool_calls:
            arguments = well_formed(call.arguments)
            told = {"call_id": call.id, "name": call.name, "arguments": arguments}
            yield {"type": "function_call", **told}


class _Item(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: str = ""
    content: list[_Part] | None = None
    call_id: str | None = None
    name: str = ""
    arguments: str | None = None


class _Response(BaseModel):
    model: str | None = None
    output: list[_Item]
    usage: ReportedUsage | None = None
    error: _Error | None = None
    ended_by: str | None = sent_as("incomplete_details.reason")


def read_response(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """The reply in ``body``, or the error with which the server ended it; else as above."""
    response = parsed(_Response, body, "response")
    if response.error is not None:
        code = str(response.error.code or "")
        return ServerError(_FAULTS.get(code, _BAD_REQUEST), response.error.message, code=code)
    of_type = defaultdict[str, list[_Item]](list)
    for item in response.output:
        of_type[item.type].append(item)
    parts = (part for item in of_type["message"] for part in item.content or ())
    text = "".join(part.text or part.refusal or "" for part in parts)
    usage = usage_of(response.usage, request, text)
    if response.ended_by == "content_filter":
        raise ModelRefusal("The content filter ended the answer", usage=usage)
    calls = [
        ToolCall(call.call_id or f"call_{number}", call.name, call.arguments or "")
        for number, call in enumerate(of_type["function_call"])
    ]
    usual = "tool_calls" if calls else "stop"
    finish = "length" if response.ended_by == "max_output_tokens" else response.ended_by or usual
    tool_calls = with_thoughts(calls, of_type["reasoning"])
    reply = ChatReply(text, finish, response.model or config.model, usage, tool_calls=tool_calls)
    if finish == "stop" and not of_type["message"]:
        raise no_answer(reply)
    return reply


RESPONSES = Wire("/responses", responses_body, read_response, RESPONSES_WORDS)
