"""The OpenAI chat-completions protocol: a request body read, a reply body written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from skillopt_ci.messages import ChatRole, Message, ToolCall
from skillopt_ci.model.providers import as_sent
from skillopt_ci.model.simulated.completion import MODELS, Completion
from skillopt_ci.model.types import Tool

_ROLES: Mapping[str, ChatRole] = {role: role for role in get_args(ChatRole)} | {
    "developer": "system"
}


@dataclass(frozen=True, slots=True)
class Call:
    """A chat-completions request, as far as the simulated models care."""

    model: str
    messages: tuple[Message, ...]
    limit: int | None
    tools: tuple[Tool, ...] = ()


class BadRequestError(ValueError):
    """A body that is not a chat-completions request; the message says why."""


def read_call(body: bytes) -> Call:
    """Read a request body; raises :class:`BadRequestError`."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise BadRequestError("`messages` must be a list")
    if request.get("stream"):
        raise BadRequestError("`stream` is not supported")
    limit = request.get("max_completion_tokens", request.get("max_tokens"))
    return Call(
        model=str(request.get("model")),
        messages=tuple(_message(entry) for entry in request["messages"]),
        limit=limit if isinstance(limit, int) and limit > 0 else None,
        tools=tuple(map(_tool, _objects(request.get("tools"), "tools"))),
    )


def _message(entry: object) -> Message:
    if not isinstance(entry, dict) or entry.get("role") not in _ROLES:
        raise BadRequestError(f"each message needs a role: one of {', '.join(_ROLES)}")
    content = entry.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return Message(
        _ROLES[entry["role"]],
        str(content or ""),
        tool_calls=tuple(map(_tool_call, _objects(entry.get("tool_calls"), "tool_calls"))),
        tool_call_id=str(entry.get("tool_call_id") or ""),
    )


def _objects(value: object, key: str) -> list[dict[str, object]]:
    listed = [] if value is None else value
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise BadRequestError(f"`{key}` must be a list of objects")
    return listed


def _function(entry: Mapping[str, object]) -> Mapping[str, object]:
    function = entry.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise BadRequestError("a tool and a tool call need a `function` with a `name`")
    return function


def _tool(entry: Mapping[str, object]) -> Tool:
    function = _function(entry)
    parameters = function.get("parameters")
    return Tool(
        str(function["name"]),
        str(function.get("description") or ""),
        parameters if isinstance(parameters, dict) else {},
    )


def _tool_call(entry: Mapping[str, object]) -> ToolCall:
    function = _function(entry)
    arguments = str(function.get("arguments") or "")
    return ToolCall(str(entry.get("id") or ""), str(function["name"]), arguments)


def completion_body(call: Call, completion: Completion, content: str) -> bytes:
    """Return the reply body; ``content`` is the request's key, from which the id is made."""
    prompt, reply = completion.prompt_tokens, completion.completion_tokens
    message = as_sent(Message("assistant", completion.text, tool_calls=completion.tool_calls))
    choice = {"index": 0, "message": message, "finish_reason": completion.finish_reason}
    return encoded(
        {
            "id": f"chatcmpl-{content[:24]}",
            "object": "chat.completion",
            "created": 0,
            "model": call.model,
            "choices": [choice],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": reply,
                "total_tokens": prompt + reply,
            },
        }
    )


def models_body() -> bytes:
    """Return the list of models."""
    listed = [{"id": name, "object": "model", "owned_by": "simulated"} for name in MODELS]
    return encoded({"object": "list", "data": listed})


ErrorType = Literal["invalid_request_error", "rate_limit_error", "server_error"]


def error_body(kind: ErrorType, message: str, code: str | None = None) -> bytes:
    """Return an error in the protocol's form."""
    return encoded({"error": {"message": message, "type": kind, "param": None, "code": code}})


def encoded(value: object) -> bytes:
    """Return ``value`` as UTF-8 JSON."""
    return json.dumps(value, ensure_ascii=False).encode()
