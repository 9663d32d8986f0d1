"""Messages and tools in the words of OpenAI's chat protocol."""

import json

from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.answer_body import well_formed
from skillopt_ci.model.client import Tool

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
