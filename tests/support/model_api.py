"""Model servers on a real socket that hold requests to the providers' own types and rules.

The bodies are checked with the types that come with the official client libraries, and for the
rules that no type can say. What does not hold is answered as the provider would answer it.
"""

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from http_server import Handler, http_server
from pydantic import TypeAdapter, ValidationError

Body = dict[str, Any]


class Refused(Exception):
    """The provider does not take this request."""


def _named(calls: Iterable[Body]) -> None:
    """OpenAI and Anthropic take no other names of tools."""
    for call in calls:
        if not re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["name"]):
            raise Refused(f"{call['name']!r} does not match pattern '^[a-zA-Z0-9_-]+$'")


@dataclass(frozen=True)
class Answer:
    """What the server sends; ``cut`` closes the connection after so many bytes of it."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass
class ModelApi:
    """All protocols at one address. Scripted answers go first; then every request gets ``text``.

    ``key`` is the only one that is let in. What was asked is kept in ``bodies``, ``paths``,
    ``queries`` and ``headers``; requests that were not understood are in ``complaints``.
    """

    url: str
    key: str = "sk-test"
    text: str = "hello"
    bodies: list[Body] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    queries: list[dict[str, list[str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    script: deque[Answer] = field(default_factory=deque)
    seen: list[str] = field(default_factory=list)

    def will(self, body: Any, status: int = 200, **more: Any) -> None:
        """Script one answer."""
        self.script.append(Answer(body, status, **more))

    def answer(self, path: str, headers: dict[str, str], body: Body) -> Answer:
        protocol = next((one for one in PROTOCOLS if path.endswith(one.path)), None)
        if protocol is None:
            return Answer({"error": {"message": f"no such path: {path}"}}, 404)
        if self.key not in (headers.get("x-api-key"), headers.get("api-key")) and (
            headers.get("authorization") != f"Bearer {self.key}"
        ):
            return Answer(protocol.error("authentication_error", "invalid x-api-key"), 401)
        try:
            _typed(protocol.type_of(), body)
            protocol.rules(body, headers)
        except (Refused, ValidationError) as error:
            self.complaints.append(str(error))
            return Answer(protocol.error("invalid_request_error", str(error)[:300]), 400)
        if self.script:
            return self.script.popleft()
        return Answer(protocol.reply(body, self.text, self._cached(protocol.prefix(body))))

    def _cached(self, prefix: str) -> bool:
        """Whether this beginning of a prompt was there before."""
        digest = hashlib.sha256(prefix.encode()).hexdigest()
        known = digest in self.seen
        self.seen.append(digest)
        return known and bool(prefix)


# --- OpenAI's chat completions -----------------------------------------------------------------


def _chat_type() -> Any:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    return CompletionCreateParamsNonStreaming


def _chat_rules(body: Body, headers: dict[str, str]) -> None:
    pending: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in pending:
                raise Refused("messages with role 'tool' must be a response to a preceding message")
            pending.discard(message["tool_call_id"])
        elif pending:
            raise Refused(f"tool_call_ids did not have response messages: {sorted(pending)}")
        calls = message.get("tool_calls", ())
        _named(call["function"] for call in calls)
        pending |= {call["id"] for call in calls}
        if len(pending) < len(calls):
            raise Refused("Duplicate value for 'tool_call_id'")
    held = body.get("response_format", {}).get("json_schema")
    if held and held.get("strict"):
        strict(held["schema"])


def _chat_reply(body: Body, text: str, cached: bool) -> Body:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {
        "prompt_tokens": 2000,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 1024 if cached else 0},
        "completion_tokens_details": {"reasoning_tokens": 30},
    }
    return {"id": "c", "model": body["model"] + "-served", "choices": [choice], "usage": usage}


def _chat_error(kind: str, message: str) -> Body:
    return {"error": {"message": message, "type": kind, "code": None, "param": None}}


def _chat_prefix(body: Body) -> str:
    first = body["messages"][0]
    return json.dumps(first) if first["role"] == "system" else ""


# --- OpenAI's responses ------------------------------------------------------------------------


def _responses_type() -> Any:
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

    return ResponseCreateParamsNonStreaming


def _responses_rules(body: Body, headers: dict[str, str]) -> None:
    items = body["input"]
    made = [item for item in items if item.get("type") == "function_call"]
    _named(made)
    calls = {item["call_id"] for item in made}
    if len(calls) < len(made):
        raise Refused("Duplicate item found with id")
    results = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    if calls != results:
        raise Refused(f"No tool output found for function call {calls ^ results}.")
    if "messages" in body or "max_tokens" in body:
        raise Refused("Unsupported parameter: 'messages'")
    held = body.get("text", {}).get("format")
    if held and held.get("strict"):
        strict(held["schema"])


def _responses_reply(body: Body, text: str, cached: bool) -> Body:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "id": "r",
        "model": body["model"] + "-served",
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "opaque"},
            {"type": "message", "id": "m", "role": "assistant", "content": content},
        ],
        "usage": {
            "input_tokens": 2000,
            "input_tokens_details": {"cached_tokens": 1024 if cached else 0},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 30},
            "total_tokens": 2050,
        },
    }


# --- Anthropic's messages ----------------------------------------------------------------------


def _messages_type() -> Any:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

    return MessageCreateParamsNonStreaming


def _messages_rules(body: Body, headers: dict[str, str]) -> None:
    if "anthropic-version" not in headers:
        raise Refused("anthropic-version: header is required")
    blocks = [block for turn in body["messages"] for block in turn["content"]]
    if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
        raise Refused("messages: text content blocks must contain non-whitespace text")
    if not all(turn["content"] for turn in body["messages"]):
        raise Refused("messages: all messages must have non-empty content")
    if any(first["role"] == second["role"] for first, second in pairwise(body["messages"])):
        raise Refused("messages: roles must alternate between user and assistant")
    _results_follow_uses(body["messages"])
    marks = [*body.get("system", ()), *body.get("tools", ()), *blocks]
    if sum("cache_control" in block for block in marks) > 4:
        raise Refused("A maximum of 4 blocks with cache_control may be provided.")
    held = body.get("output_config", {}).get("format")
    if held:
        strict(held["schema"])


def _results_follow_uses(turns: list[Body]) -> None:
    for turn, answer in pairwise([*turns, {"content": []}]):
        calls = [block for block in turn["content"] if block["type"] == "tool_use"]
        _named(calls)
        used = [block["id"] for block in calls]
        if len({*used}) < len(used):
            raise Refused("`tool_use` ids must be unique")
        given = [
            block["tool_use_id"] for block in answer["content"] if block["type"] == "tool_result"
        ]
        if used != given:
            raise Refused(
                "`tool_use` ids were found without `tool_result` blocks immediately after"
            )


def _messages_reply(body: Body, text: str, cached: bool) -> Body:
    marked = any("cache_control" in block for block in body.get("system", ()))
    return {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": body["model"] + "-served",
        "content": [
            {"type": "thinking", "thinking": "…", "signature": "sig"},
            {"type": "text", "text": text},
        ],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 976,
            "cache_read_input_tokens": 1024 if marked and cached else 0,
            "cache_creation_input_tokens": 1024 if marked and not cached else 0,
            "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 30},
        },
    }


def _messages_error(kind: str, message: str) -> Body:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


# --- all of them -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Protocol:
    path: str
    type_of: Callable[[], Any]
    rules: Callable[[Body, dict[str, str]], None]
    reply: Callable[[Body, str, bool], Body]
    error: Callable[[str, str], Body]
    prefix: Callable[[Body], str]


PROTOCOLS = (
    _Protocol("/chat/completions", _chat_type, _chat_rules, _chat_reply, _chat_error, _chat_prefix),
    _Protocol(
        "/responses",
        _responses_type,
        _responses_rules,
        _responses_reply,
        _chat_error,
        lambda body: str(body.get("instructions", "")),
    ),
    _Protocol(
        "/v1/messages",
        _messages_type,
        _messages_rules,
        _messages_reply,
        _messages_error,
        lambda body: json.dumps([body.get("tools"), body.get("system")]),
    ),
)


def strict(schema: Any) -> None:
    """Refuse a schema that is not in the strict form."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            raise Refused("Invalid schema: 'additionalProperties' is required to be false")
        if set(schema.get("required", ())) != set(properties):
            raise Refused("Invalid schema: 'required' is required to have every key")
        for inner in properties.values():
            strict(inner)
    strict(schema.get("items"))


@cache
def _adapter(type_: Any) -> TypeAdapter[Any]:
    return TypeAdapter(type_)


def _typed(type_: Any, body: Body) -> None:
    _exhausted(_adapter(type_).validate_python(body))


def _exhausted(value: Any) -> None:
    """Walk through all of a value: what is declared an iterable is only checked while it runs."""
    if isinstance(value, dict):
        for inner in value.values():
            _exhausted(inner)
    elif not isinstance(value, str | bytes | int | float | None):
        for inner in value:
            _exhausted(inner)


class _Handler(Handler):
    api: ModelApi

    def respond(self) -> None:
        body = json.loads(self.content())
        headers = {name.lower(): value for name, value in self.headers.items()}
        place = urlsplit(self.path)
        self.api.bodies.append(body)
        self.api.paths.append(place.path)
        self.api.queries.append(parse_qs(place.query))
        self.api.headers.append(headers)
        given = self.api.answer(place.path, headers, body)
        is_raw = isinstance(given.body, bytes)
        content = given.body if is_raw else json.dumps(given.body).encode()
        self.answer(content, given.status, given.headers, cut=given.cut)


@contextmanager
def serving() -> Iterator[ModelApi]:
    """Run the servers until the end of the context."""
    api = ModelApi("")
    with http_server(_Handler, api=api) as api.url:
        yield api
