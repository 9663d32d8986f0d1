"""OpenAI's chat protocol from the server's side: a request body read, a reply body written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from skillopt_ci.messages import ChatRole, Image, Message, ToolCall
from skillopt_ci.model.types import ChatReply, ReplySchema, Role, Tool

_ROLES: Mapping[str, ChatRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
#: The models that may be asked for: the one under training, the one that grades, the analysts'.
MODELS: Mapping[str, Role] = {
    "target": Role.TARGET,
    "judge": Role.JUDGE,
    "optimizer": Role.OPTIMIZER,
}


class BadRequestError(ValueError):
    """A body that cannot be answered; the message says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program asks; ``choices`` is how many independent answers it wants."""

    role: Role
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    reply_schema: ReplySchema | None
    max_output_tokens: int | None
    choices: int


class _Loose(BaseModel):
    """What is not named here (temperature, stop, …) is the configuration's business."""

    model_config = ConfigDict(extra="ignore")


class _Function(_Loose):
    name: str
    arguments: str = ""
    description: str = ""
    parameters: dict[str, Any] = {}


class _Call(_Loose):
    id: str = ""
    function: _Function


class _Message(_Loose):
    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Tool(_Loose):
    function: _Function


class _Body(_Loose):
    model: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    response_format: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    stream: bool | None = None


def read_request(body: bytes) -> Asked:
    """Read a chat-completions body; raises :class:`BadRequestError`."""
    try:
        request = _Body.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadRequestError(f"not a chat completion: {where} {first['msg']}") from None
    if request.stream:
        raise BadRequestError("answers are not streamed here; ask without `stream`")
    if request.model not in MODELS:
        raise BadRequestError(f"there is no model {request.model!r}, only {', '.join(MODELS)}")
    return Asked(
        role=MODELS[request.model],
        messages=_one_system_message([_message(one) for one in request.messages]),
        tools=tuple(_tool(one.function) for one in request.tools or ()),
        reply_schema=_schema(request.response_format),
        max_output_tokens=request.max_completion_tokens or request.max_tokens,
        choices=request.n or 1,
    )


def _message(told: _Message) -> Message:
    if told.role not in _ROLES:
        raise BadRequestError(f"{told.role!r} is not a role: {', '.join(_ROLES)}")
    parts = told.content if isinstance(told.content, list) else [{"text": told.content or ""}]
    return Message(
        _ROLES[told.role],
        "".join(str(part.get("text", "")) for part in parts),
        images=tuple(_image(part) for part in parts if part.get("type") == "image_url"),
        tool_calls=tuple(
            ToolCall(call.id, call.function.name, call.function.arguments)
            for call in told.tool_calls or ()
        ),
        tool_call_id=told.tool_call_id,
    )


def _image(part: Mapping[str, Any]) -> Image:
    url = str(part["image_url"].get("url", ""))
    head, comma, data = url.partition(";base64,")
    if not comma or not head.startswith("data:"):
        raise BadRequestError("an image must be a data: URL in base64")
    return Image(head.removeprefix("data:"), data)


def _one_system_message(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Join the system messages at the beginning: many servers accept only one."""
    count = next((n for n, one in enumerate(messages) if one.role != "system"), len(messages))
    opening = "\n\n".join(message.content for message in messages[:count])
    return (*((Message("system", opening),) if count else ()), *messages[count:])


def _tool(function: _Function) -> Tool:
    return Tool(function.name, function.description, function.parameters)


def _schema(wanted: Mapping[str, Any] | None) -> ReplySchema | None:
    described = (wanted or {}).get("json_schema")
    if not isinstance(described, dict) or "schema" not in described:
        return None
    return ReplySchema(str(described.get("name", "reply")), described["schema"])


def reply_body(replies: Sequence[ChatReply]) -> bytes:
    """Write ``replies`` as the choices of one completion."""
    usage = [reply.usage for reply in replies]
    prompt = sum(one.prompt_tokens for one in usage)
    completion = sum(one.completion_tokens for one in usage)
    return _encoded(
        {
            "id": "chatcmpl-loopback",
            "object": "chat.completion",
            "created": 0,
            "model": replies[0].model,
            "choices": [_choice(index, reply) for index, reply in enumerate(replies)],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            },
        }
    )


def _choice(index: int, reply: ChatReply) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.tool_calls
        ]
    return {"index": index, "message": message, "finish_reason": reply.finish_reason}


def error_body(message: str) -> bytes:
    """Write an error as the protocol does."""
    return _encoded({"error": {"message": message, "type": "skillopt_ci", "code": None}})


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()
