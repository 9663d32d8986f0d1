"""The body of a request to OpenAI's newer interface, Responses."""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.answer_body import well_formed
from skillopt_ci.model.client import ChatRequest, ReplySchema, Tool
from skillopt_ci.model.dialect import Words
from skillopt_ci.model.openai_message import data_url

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
