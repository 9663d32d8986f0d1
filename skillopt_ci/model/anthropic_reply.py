"""What Anthropic's Messages API answered."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.answer_body import parsed
from skillopt_ci.model.client import ChatReply, ChatRequest, ModelRefusal, estimated_usage
from skillopt_ci.model.usage import Usage

#: The reasons to stop in the words that all protocols share here.
_FINISHED: Mapping[str, str] = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "tool_calls",
    }
)
_THOUGHTS = ("thinking", "redacted_thinking")


class _Block(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: object = None


class _Details(BaseModel):
    thinking_tokens: int | None = None


class _Usage(BaseModel):
    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _StopDetails(BaseModel):
    category: str | None = None
    explanation: str | None = None


class _Message(BaseModel):
    content: list[_Block]
    model: str | None = None
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None
    usage: _Usage | None = None


def read_message(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply:
    """The reply in ``body``.

    Raises :class:`~skillopt_ci.model.transient.TransientFailure` for a body that is no message and
    :class:`ModelRefusal` if the model's guard ended the answer.
    """
    message = parsed(_Message, body, "message")
    text = "".join(block.text for block in message.content if block.type == "text")
    usage = _usage(message.usage) or estimated_usage(request, text)
    if message.stop_reason == "refusal":
        raise ModelRefusal(f"The model refused the prompt{_why(message.stop_details)}", usage=usage)
    reason = message.stop_reason or "end_turn"
    return ChatReply(
        text,
        _FINISHED.get(reason, reason),
        message.model or config.model,
        usage,
        tool_calls=_tool_calls(message.content),
    )


def _why(details: _StopDetails | None) -> str:
    said = details and (details.explanation or details.category)
    return f": {said}" if said else ""


def _tool_calls(blocks: list[_Block]) -> tuple[ToolCall, ...]:
    """The calls; what was thought before them is the state of the first."""
    thoughts = [
        {"type": block.type, **(block.model_extra or {})}
        for block in blocks
        if block.type in _THOUGHTS
    ]
    uses = [block for block in blocks if block.type == "tool_use"]
    return tuple(
        ToolCall(
            use.id,
            use.name,
            json.dumps(use.input if use.input is not None else {}, ensure_ascii=False),
            json.dumps(thoughts) if thoughts and number == 0 else "",
        )
        for number, use in enumerate(uses)
    )


def _usage(usage: _Usage | None) -> Usage | None:
    """The usage with what was read from and written to the cache among the prompt's tokens."""
    if usage is None:
        return None
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = usage.output_tokens_details
    return Usage(
        calls=1,
        prompt_tokens=usage.input_tokens + read + written,
        completion_tokens=usage.output_tokens,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=(details and details.thinking_tokens) or 0,
        cost_usd=None,
    )
