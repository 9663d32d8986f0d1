"""OpenAI's two protocols, Chat Completions and Responses: writes requests, reads answers."""

import json
import re
from collections.abc import Iterator, Mapping

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Message, ToolCall, well_formed
from skillopt_ci.model import providers
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.server_errors import ServerError, told_error
from skillopt_ci.model.types import ChatReply, ChatRequest, JsonObject, ModelRefusal, ReplySchema
from skillopt_ci.util import grouped


def _functions(request: ChatRequest) -> list[dict[str, object]]:
    return [
        {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        for tool in request.tools
    ]


def _strict(schema: ReplySchema) -> dict[str, object]:
    return {"name": schema.name, "schema": dict(schema.schema), "strict": True}


# Chat Completions, which most servers speak.

#: MiniMax's error codes, with the HTTP status that other servers use.
_STATUS_OF = {
    **dict.fromkeys((1026, 1027, 1042, 2013), 400),
    **dict.fromkeys((1004, 2049), 401),
    1008: 402,
    1001: 408,
    **dict.fromkeys((1002, 1039, 1041, 2056), 429),
}
_SENSITIVE = (1026, 1027)
#: How OpenRouter and Mistral, DeepSeek, vLLM, and Z.AI say that the server is to blame for the end.
_BROKEN_OFF = ("error", "insufficient_system_resource", "abort", "network_error")
#: Where a chat template begins the thoughts, the answer has only their end.
_THOUGHTS = re.compile(r"\A(?:\s*<think>.*?|(?:(?!<think>).)*?)</think>\s*", re.DOTALL)
#: Gemini adds its own reason, or gives it alone; Z.AI says `sensitive`.
_FILTER = re.compile(
    r"content_filter|sensitive|(?:IMAGE_)?(?:SAFETY|RECITATION|PROHIBITED_CONTENT|BLOCKLIST|SPII)"
)


def chat_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    """The body of a request; ``extra_body`` overrides everything else."""
    body: dict[str, object] = {"model": config.model}
    if request.tools:
        body["tools"] = [{"type": "function", "function": one} for one in _functions(request)]
    turns = [providers.as_sent(message) for message in request.messages]
    for turn in turns:
        if turn["role"] == "assistant":  # refused without thoughts (DeepSeek), or empty (Mistral)
            if "reasoning_content" in config.preset.carried:
                turn.setdefault("reasoning_content", "")
            if not turn["content"] and "tool_calls" not in turn:
                turn["content"] = "(no answer)"
    body["messages"] = turns
    body |= settings
    if isinstance(schema := settings.get("response_format"), ReplySchema):
        kind = config.preset.structured
        held = {} if kind == "json_object" else {"json_schema": _strict(schema)}
        body["response_format"] = {"type": kind, **held}
    thinking = {} if config.thinking is None else config.preset.thinking[config.thinking]
    return {**body, **config.preset.body, **thinking, **config.extra_body}


def read_reply(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    """The reply, or an error sent with status 200. ModelRefusal if a content filter ended it."""
    completion = providers.parsed(body)
    choice = next(iter(completion.each("choices")), JsonObject())
    message, failure = choice.at("message"), completion.at("base_resp")
    # Some servers do not separate the model's thoughts but put them before the answer.
    text = _THOUGHTS.sub("", message.words("content"), count=1) or message.text("refusal")
    usage = providers.usage_of(completion.at("usage"), request, text)
    if (code := failure.number("status_code")) and not (text or message.get("tool_calls")):
        kind = "content_filter" if code in _SENSITIVE else str(code)
        said = f"{failure.text('status_msg')} ({code})"
        return ServerError(_STATUS_OF.get(code, 502), said, kind, usage=usage)
    if not message and not choice.get("finish_reason"):
        return told_error(completion, "choices", usage)
    finish = choice.text("finish_reason").removeprefix("model_") or "stop"  # for Mistral's context
    if _FILTER.match(finish):
        raise ModelRefusal("The content filter ended the answer", usage=usage)
    if finish in _BROKEN_OFF:
        why = choice.at("error").text("message") or finish
        raise TransientFailure(f"the server broke its answer off: {why}", usage=usage)
    # The first call's state holds what must be sent back with all of them.
    state = {name: message[name] for name in config.preset.carried if message.get(name)}
    made = []
    for call in message.each("tool_calls"):
        function = call.at("function")
        if extra := call.at("extra_content"):
            state["extra_content"] = extra
        kept = json.dumps(state) if state else ""
        name, arguments = function.text("name"), function.text("arguments")
        made.append(ToolCall(call.text("id"), name, arguments, kept))
        state = {}
    calls = providers.distinct(made)
    model = completion.text("model") or config.model
    reply = ChatReply(text, finish, model, usage, tool_calls=calls)
    if message.get("content") is None and finish != "length" and not (text or calls):
        raise providers.no_answer(reply)
    return reply


CHAT = providers.Wire("/chat/completions", chat_body, read_reply)

# Responses, the newer protocol. We have the server store nothing, so we send its reasoning back.

_FAULTS = {"rate_limit_exceeded": 429, "server_error": 500}


def responses_body(
    config: ModelRole, request: ChatRequest, settings: Mapping[str, object]
) -> dict[str, object]:
    system = [message.content for message in request.messages if message.role == "system"]
    body: dict[str, object] = {"model": config.model, "store": False}
    if system:
        body["instructions"] = well_formed("\n\n".join(system))
    if request.tools:
        body["tools"] = [
            {"type": "function", **one, "strict": False} for one in _functions(request)
        ]
        body["include"] = ["reasoning.encrypted_content"]
    body["input"] = [item for message in request.messages for item in _items(message)]
    spelt = {
        "max_output_tokens": providers.limit_in(settings),
        "temperature": settings.get("temperature"),
    }
    body |= {name: value for name, value in spelt.items() if value is not None}
    if "reasoning_effort" in settings:
        body["reasoning"] = {"effort": settings["reasoning_effort"]}
    if isinstance(schema := settings.get("response_format"), ReplySchema):
        body["text"] = {"format": {"type": "json_schema", **_strict(schema)}}
    return body | config.extra_body


def _items(message: Message) -> Iterator[dict[str, object]]:
    text = well_formed(message.content)
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": text}
    elif message.role == "user":
        shown = {"type": "input_image", "detail": "auto"}
        pictures = [{**shown, "image_url": providers.data_url(one)} for one in message.images]
        said = [{"type": "input_text", "text": text}, *pictures]
        yield {"role": "user", "content": said if pictures else text}
    elif message.role == "assistant":
        for call in message.tool_calls:
            yield from providers.state_of(call)
        if text:
            yield {"role": "assistant", "content": text}
        for call in message.tool_calls:
            told = {"call_id": call.id, "name": call.name}
            yield {"type": "function_call", **told, "arguments": well_formed(call.arguments)}


def read_response(body: bytes, request: ChatRequest, config: ModelRole) -> ChatReply | ServerError:
    response = providers.parsed(body)
    error = response.at("error")
    of_type = grouped((item.text("type"), item) for item in response.each("output"))
    parts = (part for item in of_type.get("message", ()) for part in item.each("content"))
    text = "".join(part.text("text") or part.text("refusal") for part in parts)
    usage = providers.usage_of(response.at("usage"), request, text)
    if (code := error.text("code")) and not code.isdigit():  # proxies write a status
        return ServerError(_FAULTS.get(code, 400), error.text("message"), code, usage=usage)
    if error or not isinstance(response.get("output"), list):
        return told_error(response, "output", usage)
    if (status := response.get("status")) in ("queued", "in_progress", "cancelled", "failed"):
        raise TransientFailure(f"the server broke its answer off: {status}", usage=usage)
    ended_by = response.at("incomplete_details").text("reason")
    if ended_by == "content_filter":
        raise ModelRefusal("The content filter ended the answer", usage=usage)
    keys = ("call_id", "name", "arguments")
    calls = [ToolCall(*map(call.text, keys)) for call in of_type.get("function_call", ())]
    usual = "tool_calls" if calls else "stop"
    finish = "length" if ended_by == "max_output_tokens" else ended_by or usual
    tool_calls = providers.with_thoughts(calls, of_type.get("reasoning", ()))
    model = response.text("model") or config.model
    reply = ChatReply(text, finish, model, usage, tool_calls=tool_calls)
    if finish == "stop" and "message" not in of_type:
        raise providers.no_answer(reply)
    return reply


RESPONSES = providers.Wire("/responses", responses_body, read_response)
