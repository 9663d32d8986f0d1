"""Anthropic's Messages API: writes requests and reads answers as JSON."""

import json
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Message, ToolCall, well_formed
from skillopt_ci.model import providers
from skillopt_ci.model.server_errors import ServerError, told_error
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, ReplySchema

#: The API requires a token limit; this is used if neither the role nor the stage sets one.
_DEFAULT_LIMIT = 16_384
_CACHED: Mapping[str, object] = {"cache_control": {"type": "ephemeral"}}

Block = dict[str, object]


def anthropic_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The whole body; cache breakpoints follow the system prompt and, with tools used, the end."""
    limit = providers.limit_in(settings) or _DEFAULT_LIMIT
    body: dict[str, object] = {"model": config.model, "max_tokens": limit}
    if request.tools:
        body["tools"] = [
            {"name": one.name, "description": one.description, "input_schema": {**one.parameters}}
            for one in request.tools
        ]
    system = "\n\n".join(one.content for one in request.messages if one.role == "system")
    if system.strip():
        body["system"] = [{**_text(system), **_CACHED}]
    said = [one for one in request.messages if one.role != "system" and any(_blocks(one))]
    sides = groupby(said, lambda message: "assistant" if message.role == "assistant" else "user")
    turns: list[dict[str, Any]] = [
        {"role": side, "content": [block for one in group for block in _blocks(one)]}
        for side, group in sides
    ]
    if any(message.role == "tool" for message in request.messages):
        turns[-1]["content"][-1] |= _CACHED
    body["messages"] = turns
    output: dict[str, object] = {}
    effort = settings.get("reasoning_effort")
    if effort == "none":
        body["thinking"] = {"type": "disabled"}
    elif effort is not None:
        output["effort"] = "low" if effort == "minimal" else effort
    if isinstance(schema := settings.get("response_format"), ReplySchema):
        output["format"] = {"type": "json_schema", "schema": dict(schema.schema)}
    if output:
        body["output_config"] = output
    if "temperature" in settings:
        body["temperature"] = settings["temperature"]
    thinking = {} if config.thinking is None else config.preset.thinking[config.thinking]
    return {**body, **thinking, **config.extra_body}


def _blocks(message: Message) -> Iterator[Block]:
    if message.role == "tool":
        result: Block = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        yield {**result, "content": well_formed(message.content)}
        return
    for call in message.tool_calls:
        yield from providers.state_of(call)
    for image in message.images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.data}
        yield {"type": "image", "source": source}
    # The API rejects blank text blocks, and turns without blocks.
    if message.content.strip():
        yield _text(message.content)
    for call in message.tool_calls:
        arguments = json.loads(call.arguments or "{}")
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _text(text: str) -> Block:
    return {"type": "text", "text": well_formed(text)}


#: Anthropic's stop reasons, in the terms we use for every protocol.
_FINISHED: Mapping[str, str] = {
    **dict.fromkeys(("end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    "tool_use": "tool_calls",
}


def read_message(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """Raises :class:`ModelRefusal` if a safety classifier stopped the answer."""
    message = providers.parsed(body)
    blocks = message.each("content")
    text = "".join(block.text("text") for block in blocks if block.get("type") == "text")
    usage = providers.usage_of(message.at("usage"), request, text)
    if not isinstance(message.get("content"), list):
        return told_error(message, "content", usage)
    if message.get("stop_reason") == "refusal":
        details = message.at("stop_details")
        why = details.text("explanation") or details.text("category")
        said = "The model refused the prompt" + (f": {why}" if why else "")
        raise ModelRefusal(said, usage=usage)
    reason = message.text("stop_reason") or "end_turn"
    calls = [
        ToolCall(
            block.text("id"),
            block.text("name"),
            json.dumps({} if block.get("input") is None else block["input"], ensure_ascii=False),
        )
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return ChatReply(
        text,
        _FINISHED.get(reason, reason),
        message.text("model") or config.model,
        usage,
        tool_calls=providers.with_thoughts(
            calls, (one for one in blocks if one.get("type") in ("thinking", "redacted_thinking"))
        ),
    )


MESSAGES = providers.Wire("/v1/messages", anthropic_body, read_message)
