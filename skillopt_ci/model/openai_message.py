"""Messages and tools in the words of OpenAI's chat protocol."""

from skillopt_ci.chat import Message, ToolCall
from skillopt_ci.model.client import Tool
from skillopt_ci.model.openai_reply import well_formed


def as_sent(message: Message) -> dict[str, object]:
    """``message`` as the protocol wants it; a plain one has nothing but role and content."""
    sent: dict[str, object] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        sent["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    if message.role == "tool":
        sent["tool_call_id"] = message.tool_call_id
    return sent


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
        {
            "type": "image_url",
            "image_url": {"url": f"data:{image.media_type};base64,{image.data}"},
        }
        for image in message.images
    ]
    return [{"type": "text", "text": text}, *pictures]


def _tool_call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": well_formed(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}
