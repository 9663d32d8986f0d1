"""The server side of OpenAI's chat protocol: lets other programs call our models over HTTP."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from http import HTTPStatus

from aiohttp import web

from skillopt_ci.messages import CHAT_ROLES, Image, Message, ToolCall
from skillopt_ci.model.providers import as_sent
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
    JsonObject,
    ReplySchema,
    Role,
    Tool,
    Usage,
)

#: Longer request bodies are rejected: no conversation is that long.
_MOST_BYTES = 256 * 1024 * 1024
#: Shutdown does not wait for open requests; aiohttp takes 0 to mean forever.
_SHUTDOWN_SECONDS = 0.01


class BadRequestError(ValueError):
    """The request body is invalid; the message says why."""


def read_body(body: bytes) -> tuple[str, ChatRequest, int]:
    """Model, request, number of answers. Sampling settings are ignored. Raises BadRequestError."""
    try:
        asked = JsonObject(json.loads(body))
    except (ValueError, TypeError, RecursionError) as error:
        raise BadRequestError(f"not a chat completion: {error}") from None
    if not isinstance(asked.get("messages"), list):
        raise BadRequestError("not a chat completion: messages must be a list")
    if asked.get("stream"):
        raise BadRequestError("answers are not streamed here; ask without `stream`")
    messages = [_message(message) for message in asked.each("messages")]
    # Many servers accept only one system message, at the beginning.
    count = next((n for n, one in enumerate(messages) if one.role != "system"), len(messages))
    if count:
        messages[:count] = [Message("system", "\n\n".join(one.content for one in messages[:count]))]
    schema = asked.at("response_format", "json_schema")
    chat_request = ChatRequest(
        role=Role.TARGET,
        stage="",
        messages=tuple(messages),
        max_output_tokens=asked.number("max_completion_tokens", "max_tokens") or None,
        tools=tuple(
            Tool(one.text("name"), one.text("description"), one.at("parameters"))
            for one in (tool.at("function") for tool in asked.each("tools"))
        ),
        reply_schema=ReplySchema(schema.text("name") or "reply", schema.at("schema"))
        if "schema" in schema
        else None,
    )
    return asked.text("model"), chat_request, asked.number("n") or 1


def _message(message: JsonObject) -> Message:
    if (role := message.text("role")) not in CHAT_ROLES:
        raise BadRequestError(f"{role!r} is not a role: {', '.join(CHAT_ROLES)}")
    images = []
    for part in message.each("content"):
        if part.get("type") == "image_url":
            head, comma, data = part.at("image_url").text("url").partition(";base64,")
            if not comma or not head.startswith("data:"):
                raise BadRequestError("an image must be a data: URL in base64")
            images.append(Image(head.removeprefix("data:"), data))
    return Message(
        CHAT_ROLES[role],
        message.words("content"),
        images=tuple(images),
        tool_calls=tuple(
            ToolCall(one.text("id"), made.text("name"), made.text("arguments"))
            for one, made in ((call, call.at("function")) for call in message.each("tool_calls"))
        ),
        tool_call_id=message.text("tool_call_id"),
    )


def reply_body(replies: Sequence[ChatReply]) -> dict[str, object]:
    usage, choices = sum((reply.usage for reply in replies), Usage()), []
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


def error_response(status: HTTPStatus, message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return web.json_response({"error": error}, status=status)


@asynccontextmanager
async def listening(
    respond: Callable[[web.Request], Awaitable[web.StreamResponse]], port: int = 0
) -> AsyncIterator[str]:
    """Serve ``respond`` on this machine and yield the base URL; port 0 picks a free port."""
    application = web.Application(client_max_size=_MOST_BYTES)
    application.router.add_route("*", "/{path:.*}", respond)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, backlog=256, reuse_address=True).start()
        address, number = runner.addresses[0]
        yield f"http://{address}:{number}/v1"
    finally:
        await runner.cleanup()
