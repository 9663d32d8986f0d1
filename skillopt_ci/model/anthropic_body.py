"""The body of a request to Anthropic's Messages API."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.answer_body import well_formed
from skillopt_ci.model.client import ChatRequest, ReplySchema, Tool
from skillopt_ci.model.dialect import Words

#: The API wants a limit; this one holds where neither the role nor the stage has any.
DEFAULT_LIMIT = 16_384
WORDS: Words = MappingProxyType(
    {
        "temperature": ("temperature",),
        "reasoning_effort": ("effort", "output_config.effort"),
        "response_format": ("output_config.format", "output_format", "json_schema", "schema"),
    }
)
_CACHED: Mapping[str, object] = MappingProxyType({"cache_control": {"type": "ephemeral"}})
_EFFORTS = MappingProxyType({"minimal": "low"})
_LIMITS = ("max_tokens", "max_completion_tokens")

Block = dict[str, object]


def anthropic_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The whole body, with marks behind what is to be cached.

    Tools and system prompt are the same from call to call, so there is one behind them. A
    conversation with tools is asked again with each result, so there is one at its end too.
    """
    limit = next((settings[name] for name in _LIMITS if name in settings), DEFAULT_LIMIT)
    body: dict[str, object] = {"model": config.model, "max_tokens": limit}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    system = "\n\n".join(one.content for one in request.messages if one.role == "system")
    if system.strip():
        body["system"] = [{**_text(system), **_CACHED}]
    turns = _turns(request.messages)
    if any(message.role == "tool" for message in request.messages):
        turns[-1]["content"][-1] |= _CACHED  # type: ignore[index]
    body["messages"] = turns
    thinking = {} if config.thinking is None else config.preset.thinking[config.thinking]
    return {**body, **_spelt(settings), **thinking, **config.extra_body}


def _spelt(settings: Mapping[str, object]) -> dict[str, object]:
    spelt: dict[str, object] = {}
    output: dict[str, object] = {}
    effort = settings.get("reasoning_effort")
    if effort == "none":
        spelt["thinking"] = {"type": "disabled"}
    elif effort is not None:
        output["effort"] = _EFFORTS.get(str(effort), effort)
    schema = settings.get("response_format")
    if isinstance(schema, ReplySchema):
        output["format"] = {"type": "json_schema", "schema": dict(schema.schema)}
    if output:
        spelt["output_config"] = output
    if "temperature" in settings:
        spelt["temperature"] = settings["temperature"]
    return spelt


def _tool(tool: Tool) -> Block:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def _turns(messages: Iterable[Message]) -> list[dict[str, object]]:
    """The messages as turns that alternate: results of tools are the user's."""
    said = [message for message in messages if message.role != "system"]
    sides = groupby(said, lambda message: "assistant" if message.role == "assistant" else "user")
    return [
        {"role": side, "content": [block for one in group for block in _blocks(one)]}
        for side, group in sides
    ]


def _blocks(message: Message) -> Iterator[Block]:
    if message.role == "tool":
        result: Block = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        yield {**result, "content": well_formed(message.content)}
        return
    for call in message.tool_calls:
        yield from _thought(call)
    yield from map(_image, message.images)
    # A blank text is refused.
    if message.content.strip():
        yield _text(message.content)
    yield from map(_tool_use, message.tool_calls)


def _text(text: str) -> Block:
    return {"type": "text", "text": well_formed(text)}


def _image(image: Image) -> Block:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def _thought(call: ToolCall) -> Iterator[Block]:
    blocks = json.loads(call.state) if call.state else []
    yield from (block for block in blocks if isinstance(block, dict))


def _tool_use(call: ToolCall) -> Block:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": _object(call.arguments)}


def _object(arguments: str) -> dict[str, object]:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": well_formed(arguments)}
