"""OpenAI's two interfaces, and every server that speaks one of them, by the official client.

Importing this module imports ``openai``, which is slow: it is imported only when a role needs it.
"""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from types import MappingProxyType

import openai
from pydantic import BaseModel, ConfigDict

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.call_key import base_url_of, uses_responses
from skillopt_ci.model.keys import NO_KEY
from skillopt_ci.model.providers import (
    ReportedUsage,
    RequestPacer,
    ServerClient,
    Wire,
    called,
    parsed,
    usage_of,
    well_formed,
)
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.server_errors import ServerError, Words
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
    ModelRefusal,
    ReplySchema,
    Tool,
)
from skillopt_ci.progress import Observer, silent

# Reading the body of a chat completion, tolerant of what compatible servers leave out.

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


class _ChatError(BaseModel):
    message: str = ""
    code: int | str | None = None


class _Completion(BaseModel):
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: ReportedUsage | None = None
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
    usage = usage_of(completion.usage, request, text)
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


# The body of a request in OpenAI's chat protocol, which most servers speak.

CHAT_WORDS: Words = MappingProxyType(
    {
        "max_completion_tokens": ("max_completion_tokens",),
        "max_tokens": ("max_tokens",),
        "temperature": ("temperature",),
        "reasoning_effort": ("reasoning_effort",),
        "response_format": ("response_format", "json_schema", "structured output"),
    }
)


#: Of a call's state, what belongs to the call itself; the rest belongs to its message.
_OF_THE_CALL = ("extra_content",)


def as_sent(message: Message) -> dict[str, object]:
    """``message`` as the protocol wants it; a plain one has nothing but role and content."""
    sent: dict[str, object] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        states = [_state(call) for call in message.tool_calls]
        sent["tool_calls"] = [
            _tool_call(call) | {name: state[name] for name in _OF_THE_CALL if name in state}
            for call, state in zip(message.tool_calls, states, strict=True)
        ]
        sent |= {name: state[name] for state in states for name in state.keys() - {*_OF_THE_CALL}}
    if message.role == "tool":
        sent["tool_call_id"] = message.tool_call_id
    return sent


def data_url(image: Image) -> str:
    """The picture itself as an address."""
    return f"data:{image.media_type};base64,{image.data}"


def tool_as_sent(tool: Tool) -> dict[str, object]:
    """``tool`` as the protocol wants it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _content(message: Message) -> object:
    text = well_formed(message.content)
    if not message.images:
        return text
    pictures = [
        {"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images
    ]
    return [{"type": "text", "text": text}, *pictures]


def _state(call: ToolCall) -> dict[str, object]:
    state = json.loads(call.state) if call.state else {}
    return state if isinstance(state, dict) else {}


def _tool_call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": well_formed(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def chat_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The whole body, what changes from call to call last; ``extra_body`` has the last word."""
    body: dict[str, object] = {"model": config.model}
    if request.tools:
        body["tools"] = [tool_as_sent(tool) for tool in request.tools]
    body["messages"] = [as_sent(message) for message in request.messages]
    plain = {name: value for name, value in settings.items() if name != "response_format"}
    schema = settings.get("response_format")
    if isinstance(schema, ReplySchema):
        plain["response_format"] = _response_format(config, schema)
    thinking = {} if config.thinking is None else config.preset.thinking[config.thinking]
    return {**body, **plain, **config.preset.body, **thinking, **config.extra_body}


def _response_format(config: ModelRole, schema: ReplySchema) -> dict[str, object]:
    if config.preset.structured == "json_object":
        return {"type": "json_object"}
    held = {"name": schema.name, "schema": dict(schema.schema), "strict": True}
    return {"type": "json_schema", "json_schema": held}


# The body of a request to OpenAI's newer interface, Responses.

RESPONSES_WORDS: Words = MappingProxyType(
    {
        "temperature": ("temperature",),
        "reasoning_effort": ("reasoning_effort", "reasoning.effort"),
        "response_format": ("text.format", "json_schema", "response_format"),
    }
)
_LIMITS = ("max_completion_tokens", "max_tokens")


def responses_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The whole body; nothing is kept on the server, so what it reasoned comes back with calls."""
    system = [message.content for message in request.messages if message.role == "system"]
    body: dict[str, object] = {"model": config.model, "store": False}
    if system:
        body["instructions"] = well_formed("\n\n".join(system))
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        body["include"] = ["reasoning.encrypted_content"]
    body["input"] = [item for message in request.messages for item in _items(message)]
    return {**body, **_spelt(settings), **config.extra_body}


def _spelt(settings: Mapping[str, object]) -> dict[str, object]:
    spelt: dict[str, object] = {
        "max_output_tokens": next((settings[name] for name in _LIMITS if name in settings), None),
        "temperature": settings.get("temperature"),
    }
    if "reasoning_effort" in settings:
        spelt["reasoning"] = {"effort": settings["reasoning_effort"]}
    schema = settings.get("response_format")
    if isinstance(schema, ReplySchema):
        held = {"name": schema.name, "schema": dict(schema.schema), "strict": True}
        spelt["text"] = {"format": {"type": "json_schema", **held}}
    return {name: value for name, value in spelt.items() if value is not None}


def _tool(tool: Tool) -> dict[str, object]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }


def _items(message: Message) -> Iterator[dict[str, object]]:
    text = well_formed(message.content)
    if message.role == "tool":
        yield {
            "type": "function_call_output",
            "call_id": message.tool_call_id,
            "output": text,
        }
    elif message.role == "user":
        shown = {"type": "input_image", "detail": "auto"}
        pictures = [{**shown, "image_url": data_url(one)} for one in message.images]
        said = [{"type": "input_text", "text": text}, *pictures]
        yield {"role": "user", "content": said if pictures else text}
    elif message.role == "assistant":
        for call in message.tool_calls:
            yield from _reasoned(call)
        if text:
            yield {"role": "assistant", "content": text}
        yield from map(_call, message.tool_calls)


def _reasoned(call: ToolCall) -> Iterator[dict[str, object]]:
    items = json.loads(call.state) if call.state else []
    yield from (item for item in items if isinstance(item, dict))


def _call(call: ToolCall) -> dict[str, object]:
    arguments = well_formed(call.arguments)
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }


# What a server answered at OpenAI's newer interface, Responses.

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


class _ResponseError(BaseModel):
    code: str | None = None
    message: str = ""


class _Incomplete(BaseModel):
    reason: str | None = None


class _Response(BaseModel):
    model: str | None = None
    status: str | None = None
    output: list[_Item]
    usage: ReportedUsage | None = None
    error: _ResponseError | None = None
    incomplete_details: _Incomplete | None = None


def read_response(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """The reply in ``body``, or the error with which the server ended it.

    Raises :class:`~skillopt_ci.model.retry.TransientFailure` for a body that is no response and
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
    usage = usage_of(response.usage, request, text)
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


def connection_pool(size: int) -> openai.DefaultAioHttpClient:
    """An HTTP client with at most ``size`` connections, for all roles; the caller closes it."""
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
        max_connections=size, max_keepalive_connections=size
    )
    return openai.DefaultAioHttpClient(limits=limits)


def openai_client(
    section: str,
    config: ModelRole,
    key: str,
    pool: openai.DefaultAioHttpClient,
    headers: Callable[[], Awaitable[Mapping[str, str]]],
    observe: Observer = silent,
    pacer: RequestPacer | None = None,
) -> ServerClient:
    """A client for a role; ``section`` (``model.target``) names it in messages.

    ``key`` is its API key; ``headers`` gives what else proves who we are, for each call.
    """
    # Spelt out and not by the library's own Azure client, which would ask the environment.
    older = config.azure.api_version if config.azure else None
    sdk = openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url_of(config),
        default_query={"api-version": older} if older else None,
        default_headers={"api-key": key} if older and key != NO_KEY else None,
        http_client=pool,
        max_retries=0,
        timeout=None,  # `called` has one
    )
    path = "/responses" if uses_responses(config) else "/chat/completions"

    async def send(body: dict[str, object]) -> bytes | ServerError:
        more = await headers()
        # Not by `sdk.chat.completions` and the like: they import all that OpenAI has, and go
        # through the body field by field, which takes longer than sending it.
        return await called(
            lambda: sdk.post(path, cast_to=bytes, body=body, options={"headers": more}),
            openai,
            config.timeout,
            [key],
            base_url_of(config),
        )

    if uses_responses(config):
        body, read, words = responses_body, read_response, RESPONSES_WORDS
    else:
        body, read, words = chat_body, read_reply, CHAT_WORDS
    return ServerClient(section, config, Wire(body, read, words, send), observe, pacer)
