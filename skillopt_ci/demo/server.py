"""The simulated models behind OpenAI's chat-completions protocol, with faults on demand."""

import json
import select
import socket
import socketserver
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import get_args

from skillopt_ci.demo.client import MODELS, complete, find_model
from skillopt_ci.demo.world import Dice, content_key
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import ChatRole, Message, ToolCall
from skillopt_ci.model.types import Tool

FAULTS = ("rate_limited", "server_error", "cut_connection", "truncated_json")
#: A client that tries five times gets its answer.
MOST_FAULTS_IN_A_ROW = 4

_ROLES: Mapping[str, ChatRole] = {role: role for role in get_args(ChatRole)} | {
    "developer": "system"
}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the server answers from, and how badly.

    ``fault_rate`` is the share of tries that fail; ``latency`` seconds pass before each reply.
    """

    seed: int = 0
    fault_rate: float = 0.0
    latency: float = 0.0


def fault_of(content: str, attempt: int, *, seed: int, rate: float) -> str | None:
    """Return the fault that befalls this try (from 0) at this content, None if it is answered."""
    dice = Dice(seed, content)
    streak = 0
    for number in range(attempt + 1):
        unlucky = streak < MOST_FAULTS_IN_A_ROW and dice.chance(f"try {number}", rate)
        streak = streak + 1 if unlucky else 0
    return dice.pick(f"fault {attempt}", FAULTS) if streak else None


@dataclass(slots=True)
class Tally:
    """Counts requests; safe to use from several threads."""

    tries: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def next_try(self, content: str) -> int:
        """Count a request and return how many came before it for the same content."""
        with self._lock:
            self.tries[content] += 1
            return self.tries[content] - 1

    def note(self, content: str, fault: str | None) -> None:
        """Count a reply: a fault, or one that is sent whole."""
        with self._lock:
            if fault is None:
                self.answered[content] += 1
            else:
                self.faults[fault] += 1

    def snapshot(self) -> dict[str, object]:
        """Return the counts as JSON-ready values."""
        with self._lock:
            return {
                "requests": self.tries.total(),
                "answered": self.answered.total(),
                "faults": dict(self.faults),
                "answered_per_content": dict(self.answered),
            }


@dataclass(frozen=True, slots=True)
class Call:
    """A chat-completions request, as far as the simulated models care."""

    model: str
    messages: tuple[Message, ...]
    limit: int | None
    tools: tuple[Tool, ...] = ()


class BadRequestError(ValueError):
    """A body that is not a chat-completions request; the message says why."""


def read_call(body: bytes) -> Call:
    """Read a request body; raises :class:`BadRequestError`."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise BadRequestError("`messages` must be a list")
    if request.get("stream"):
        raise BadRequestError("`stream` is not supported")
    limit = request.get("max_completion_tokens", request.get("max_tokens"))
    tools = [function for _, function in _functions(request, "tools")]
    return Call(
        model=str(request.get("model")),
        messages=tuple(map(_message, request["messages"])),
        limit=limit if isinstance(limit, int) and limit > 0 else None,
        tools=tuple(
            Tool(
                str(one["name"]),
                str(one.get("description") or ""),
                parameters if isinstance(parameters := one.get("parameters"), dict) else {},
            )
            for one in tools
        ),
    )


def _message(entry: object) -> Message:
    if not isinstance(entry, dict) or entry.get("role") not in _ROLES:
        raise BadRequestError(f"each message needs a role: one of {', '.join(_ROLES)}")
    content = entry.get("content")
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    calls = tuple(
        ToolCall(str(one.get("id") or ""), str(called["name"]), str(called.get("arguments") or ""))
        for one, called in _functions(entry, "tool_calls")
    )
    answered = str(entry.get("tool_call_id") or "")
    role = _ROLES[entry["role"]]
    return Message(role, str(content or ""), tool_calls=calls, tool_call_id=answered)


def _functions(
    entry: Mapping[str, object], key: str
) -> list[tuple[dict[str, object], dict[str, object]]]:
    """Return the tools or calls listed under ``key``, each with its ``function``."""
    listed = [] if entry.get(key) is None else entry[key]
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise BadRequestError(f"`{key}` must be a list of objects")
    found = [(item, item.get("function")) for item in listed]
    if not all(isinstance(one, dict) and isinstance(one.get("name"), str) for _, one in found):
        raise BadRequestError("a tool and a tool call need a `function` with a `name`")
    return found


class SimulatedServer(socketserver.ThreadingTCPServer):
    """Serves until it is shut down; ``tally`` counts."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: tuple[str, int], behaviour: Behaviour) -> None:
        """Bind to ``address``; port 0 takes a free one."""
        self.behaviour = behaviour
        self.tally = Tally()
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Report what went wrong in a handler, unless the client merely went away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def base_url(self) -> str:
        """The URL that clients are configured with."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{host}:{port}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: SimulatedServer

    def do_GET(self) -> None:
        if self.path == "/stats":
            self._send(HTTPStatus.OK, _encoded(self.server.tally.snapshot()))
        elif self.path == "/v1/models":
            data = [{"id": name, "object": "model", "owned_by": "simulated"} for name in MODELS]
            self._send(HTTPStatus.OK, _encoded({"object": "list", "data": data}))
        else:
            self._fail(HTTPStatus.NOT_FOUND, f"there is no {self.path}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self._fail(HTTPStatus.NOT_FOUND, f"there is no {self.path}")
            return
        try:
            call = read_call(body)
            find_model(call.model)
        except BadRequestError as error:
            self._fail(HTTPStatus.BAD_REQUEST, str(error))
        except ModelSetupError as error:
            self._fail(HTTPStatus.NOT_FOUND, str(error), code="model_not_found")
        else:
            self._complete(call)

    def _complete(self, call: Call) -> None:
        behaviour, tally = self.server.behaviour, self.server.tally
        content = content_key(call.messages)
        attempt = tally.next_try(content)
        fault = fault_of(content, attempt, seed=behaviour.seed, rate=behaviour.fault_rate)
        time.sleep(behaviour.latency)
        body = _completion(call, behaviour.seed, content)
        # An answer that nobody reads is none: the other side may have closed the connection.
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            self.close_connection = True
            return
        tally.note(content, fault)
        match fault:
            case None:
                self._send(HTTPStatus.OK, body)
            case "rate_limited":
                said, kind = "too many requests, slow down", "rate_limit_error"
                self._fail(HTTPStatus.TOO_MANY_REQUESTS, said, kind, headers={"Retry-After": "0"})
            case "server_error":
                said, kind = "the server had an error", "server_error"
                self._fail(HTTPStatus.INTERNAL_SERVER_ERROR, said, kind)
            case "truncated_json":
                self._send(HTTPStatus.OK, body[: len(body) // 2])
            case _:
                length = {"Content-Length": str(len(body))}
                self._send(HTTPStatus.OK, body[: len(body) // 2], length)
                self.close_connection = True

    def _fail(
        self,
        status: HTTPStatus,
        message: str,
        kind: str = "invalid_request_error",
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        error = {"message": message, "type": kind, "param": None, "code": code}
        self._send(status, _encoded({"error": error}), headers)

    def _send(
        self, status: HTTPStatus, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        defaults = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in {**defaults, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep standard error quiet: the tally is the log."""


def _completion(call: Call, seed: int, content: str) -> bytes:
    """Answer ``call``; the id is made from ``content``, the request's key."""
    done = complete(call.model, call.messages, seed=seed, limit=call.limit, tools=call.tools)
    message: dict[str, object] = {"role": "assistant", "content": done.text}
    if done.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in done.tool_calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": done.finish_reason}
    usage = {
        "prompt_tokens": done.prompt_tokens,
        "completion_tokens": done.completion_tokens,
        "total_tokens": done.prompt_tokens + done.completion_tokens,
    }
    answer = {"id": f"chatcmpl-{content[:24]}", "object": "chat.completion", "created": 0}
    return _encoded({**answer, "model": call.model, "choices": [choice], "usage": usage})


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def serve(host: str, port: int, behaviour: Behaviour) -> None:
    """Print the base URL, then serve until interrupted."""
    with suppress(KeyboardInterrupt), SimulatedServer((host, port), behaviour) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        server.serve_forever()
