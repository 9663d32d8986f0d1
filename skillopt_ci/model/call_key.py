"""What determines an answer: the effective parameters of a call and the hash over them."""

import hashlib
import json

from skillopt_ci.chat import Message
from skillopt_ci.model.client import ChatRequest
from skillopt_ci.settings.model import ModelRole

OPENAI_BASE_URL = "https://api.openai.com/v1"


def base_url_of(config: ModelRole) -> str:
    """Root of the API that the role calls."""
    return (config.base_url or OPENAI_BASE_URL).rstrip("/")


def token_limit(config: ModelRole, request: ChatRequest) -> int | None:
    """The smaller of the role's and the request's limits of output tokens."""
    limits = (config.max_output_tokens, request.max_output_tokens)
    return min((limit for limit in limits if limit is not None), default=None)


def call_key(config: ModelRole, request: ChatRequest) -> str:
    """SHA-256 in hex over everything that determines the answer.

    Role, stage, API key and timeout are left out: they do not.
    """
    content: dict[str, object] = {
        "provider": config.provider,
        "base_url": base_url_of(config),
        "model": config.model,
        "messages": [_told(message) for message in request.messages],
        "max_output_tokens": token_limit(config, request),
        "temperature": config.temperature,
        "reasoning_effort": config.reasoning_effort,
        "extra_body": config.extra_body,
        "seed": config.seed if config.provider == "simulated" else None,
        "attempt": request.attempt,
    }
    if config.provider == "command":
        content["command"] = list(config.command)
    # Absent, not empty: what was answered before there were tools and schemas keeps its key.
    if request.tools:
        content["tools"] = [[one.name, one.description, one.parameters] for one in request.tools]
    if request.reply_schema is not None:
        content["reply_schema"] = request.reply_schema.schema
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _told(message: Message) -> list[object]:
    told: list[object] = [message.role, message.content]
    if message.images or message.tool_calls or message.tool_call_id:
        images = [[image.media_type, image.data] for image in message.images]
        calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
        told += [images, calls, message.tool_call_id]
    return told
