"""The server's side of OpenAI's chat protocol, for models of ours that others ask over HTTP."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any, get_args

from aiohttp import web
from pydantic import AliasPath, BaseModel, Field, ValidationError

from skillopt_ci.messages import ChatRole, Image, Message, ToolCall
from skillopt_ci.model.providers import as_sent
from skillopt_ci.model.types import ChatReply, ChatRequest, ReplySchema, Role, Tool, Usage

_ROLES: dict[str, ChatRole] = {role: role for role in get_args(ChatRole)} | {"developer": "system"}
#: Longer bodies are refused: no conversation is that long.
_MOST_BYTES = 256 * 1024 * 1024
#: Who stops a server waits for no answers; to aiohttp, 0 would mean for ever.
_SHUTDOWN_SECONDS = 0.01


class BadRequestError(ValueError):
    """A body that cannot be answered; the message says why."""


# What is not named here (temperature, stop, …) is for the configuration to say.


class _Call(BaseModel):
    id: str = ""
    name: str = Field(validation_alias=AliasPath("function", "name"))
    arguments: str = Field("", validation_alias=AliasPath("function", "arguments"))


class _Message(BaseModel):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Tool(BaseModel):
    name: str = Field(validation_alias=AliasPath("function", "name"))
    description: str = Field("", validation_alias=AliasPath("function", "description"))
    parameters: dict[str, Any] = Field({}, validation_alias=AliasPath("function", "parameters"))


class _ResponseFormat(BaseModel):
    json_schema: dict[str, Any] | None = None


class _Body(BaseModel):
    model: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    response_format: _ResponseFormat | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    stream: bool | None = None


def read_body(body: bytes) -> tuple[str, ChatRequest, int]:
    """Read a chat-completions body: the model asked for, the request, how many answers it wants.

    The request is the target's. Raises :class:`BadRequestError`.
    """
    try:
        request = _Body.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadRequestError(f"not a chat completion: {where} {first['msg']}") from None
    if request.stream:
        raise BadRequestError("answers are not streamed here; ask without `stream`")
    messages = [_message(message) for message in request.messages]
    # many servers accept only one system message, at the beginning
    count = next((n for n, one in enumerate(messages) if one.role != "system"), len(messages))
    if count:
        opening = "\n\n".join(message.content for message in messages[:count])
        messages[:count] = [Message("system", opening)]
    schema = (request.response_format and request.response_format.json_schema) or {}
    chat_request = ChatRequest(
        role=Role.TARGET,
        stage="",
        messages=tuple(messages),
        max_output_tokens=request.max_completion_tokens or request.max_tokens,
        tools=tuple(
            Tool(tool.name, tool.description, tool.parameters) for tool in request.tools or ()
        ),
        reply_schema=ReplySchema(str(schema.get("name", "reply")), schema["schema"])
        if "schema" in schema
        else None,
    )
    return request.model, chat_request, request.n or 1


def _message(message: _Message) -> Message:
    if message.role not in _ROLES:
        raise BadRequestError(f"{message.role!r} is not a role: {', '.join(_ROLES)}")
    images, parts = [], message.content
    if not isinstance(parts, list):
        parts = [{"text": parts or ""}]
    for part in parts:
        if part.get("type") == "image_url":
            url = str(part["image_url"].get("url", ""))
            head, comma, data = url.partition(";base64,")
            if not comma or not head.startswith("data:"):
                raise BadRequestError("an image must be a data: URL in base64")
            images.append(Image(head.removeprefix("data:"), data))
    return Message(
        _ROLES[message.role],
        "".join(str(part.get("text", "")) for part in parts),
        images=tuple(images),
        tool_calls=tuple(
            ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls or ()
        ),
        tool_call_id=message.tool_call_id,
    )


def reply_body(replies: Sequence[ChatReply]) -> dict[str, object]:
    """``replies`` as the choices of one completion."""
    usage = sum((reply.usage for reply in replies), Usage())
    choices = []
    for index, reply in enumerate(replies):
        calls = tuple(replace(call, state="") for call in reply.tool_calls)
        message = as_sent(Message("assistant", reply.text, tool_calls=calls))
        choices.append({"index": index, "message": message, "finish_reason": reply.finish_reason})
    return {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 0,
        "model": replies[0].model,
        "choices": choices,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
    }


def error_response(
    status: HTTPStatus,
    message: str,
    *,
    kind: str = "invalid_request_error",
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> web.Response:
    """An error as OpenAI words it."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)


@asynccontextmanager
async def listening(
    respond: Callable[[web.Request], Awaitable[web.StreamResponse]],
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[str]:
    """Let ``respond`` answer requests to ``host`` until the body ends; its value is the base URL.

    Port 0 takes a free one. Raises OSError where that cannot be.
    """
    application = web.Application(client_max_size=_MOST_BYTES)
    application.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    # Bound here and not by asyncio, which words its errors in its own way.
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        await runner.setup()
        try:
            await web.SockSite(runner, bound, backlog=256).start()
            address, number = bound.getsockname()
            yield f"http://{address}:{number}/v1"
        finally:
            await runner.cleanup()
