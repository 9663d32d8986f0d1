"""The OpenAI chat-completions protocol: a request body read, a reply body written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from skillopt_ci.chat import ChatRole, Message
from skillopt_ci.model.simulated.completion import MODELS, Completion

_ROLES: Mapping[str, ChatRole] = {role: role for role in get_args(ChatRole)} | {
    "developer": "system"
}


@dataclass(frozen=True, slots=True)
class Call:
    """A chat-completions request, as far as the simulated models care."""

    model: str
    messages: tuple[Message, ...]
    limit: int | None


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
    )


def _message(entry: object) -> Message:
    if not isinstance(entry, dict) or entry.get("role") not in _ROLES:
        raise BadRequestError(f"each message needs a role: one of {', '.join(_ROLES)}")
    content = entry.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return Message(_ROLES[entry["role"]], str(content or ""))


def completion_body(call: Call, completion: Completion, content: str) -> bytes:
    """Return the reply body; ``content`` is the request's key, from which the id is made."""
    prompt, reply = completion.prompt_tokens, completion.completion_tokens
    message = {"role": "assistant", "content": completion.text}
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
