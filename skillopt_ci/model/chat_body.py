"""The body of a request in OpenAI's chat protocol, which most servers speak."""

from collections.abc import Mapping
from types import MappingProxyType

from skillopt_ci.config.models import ModelRole
from skillopt_ci.model.client import ChatRequest, ReplySchema
from skillopt_ci.model.dialect import Words
from skillopt_ci.model.openai_message import as_sent, tool_as_sent

CHAT_WORDS: Words = MappingProxyType(
    {
        "max_completion_tokens": ("max_completion_tokens",),
        "max_tokens": ("max_tokens",),
        "temperature": ("temperature",),
        "reasoning_effort": ("reasoning_effort",),
        "response_format": ("response_format", "json_schema", "structured output"),
    }
)


def chat_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The whole body, what changes from call to call last; ``extra_body`` has the last word."""
    body: dict[str, object] = {"model": config.model}
    if request.tools:
        body["tools"] = [tool_as_sent(tool) for tool in request.tools]
    body["messages"] = [as_sent(message) for message in request.messages]
    plain = {name: value for name, value in settings.items() if name != "response_format"}
    schema = settings.get("response_format")
    if isinstance(schema, ReplySchema):
        plain["response_format"] = _response_format(config, schema)
    thinking = {} if config.thinking is None else config.preset.thinking[config.thinking]
    return {**body, **plain, **config.preset.body, **thinking, **config.extra_body}


def _response_format(config: ModelRole, schema: ReplySchema) -> dict[str, object]:
    if config.preset.structured == "json_object":
        return {"type": "json_object"}
    held = {"name": schema.name, "schema": dict(schema.schema), "strict": True}
    return {"type": "json_schema", "json_schema": held}
