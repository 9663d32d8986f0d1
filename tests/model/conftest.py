"""A scripted chat server on a real socket, and the requests and settings to reach it with."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from skillopt_ci.config.models import ModelRole
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Usage


@dataclass(frozen=True)
class Response:
    """What the server sends; ``cut`` closes the connection after so many bytes of the body.

    ``gate`` keeps the server from answering until it opens; with ``hangs_up`` it never does.
    """

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    gate: threading.Event | threading.Barrier | None = None
    hangs_up: bool = False


def completion(text: str | None = "hello", **changes: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    return {"model": "served", "choices": [choice], "usage": usage, **changes}


class Server:
    """Answers as scripted, in order; when the script is over, with ``hello``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[dict[str, Any]] = []
        self.peers: set[tuple[str, int]] = set()
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.arrived = threading.Event()
        self._script: deque[Response] = deque()

    def will(self, body: object = None, **changes: Any) -> None:
        """Script one response: ``body`` as bytes or as a value to send as JSON."""
        content = completion() if body is None else body
        encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._script.append(Response(encoded, **changes))

    def will_fail(self, status: int, message: str, headers: Any = None, **fields: Any) -> None:
        """Script one error as OpenAI words it."""
        self.will({"error": {"message": message, **fields}}, status=status, headers=headers or {})

    def next(self) -> Response:
        if not self._script:
            self.will()
        return self._script.popleft()

    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.bodies]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    chat: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.chat.bodies.append(json.loads(self.rfile.read(length)))
        self.chat.peers.add(self.client_address)
        self.chat.paths.append(self.path)
        self.chat.headers.append({name.lower(): value for name, value in self.headers.items()})
        response = self.chat.next()
        self.chat.arrived.set()
        if response.gate:
            response.gate.wait(30)
        self.respond(response)

    def respond(self, response: Response) -> None:
        if response.hangs_up:
            self.close_connection = True
            return
        self.send_response(response.status)
        for name, value in {"Content-Type": "application/json", **response.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body[: response.cut])
        self.close_connection = response.cut is not None

    def log_message(self, *args: object) -> None:
        pass


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that went away is part of what is tested


@pytest.fixture
def server() -> Iterator[Server]:
    http = QuietServer(("127.0.0.1", 0), Handler)
    chat = Server(f"http://127.0.0.1:{http.server_address[1]}/v1")
    http.RequestHandlerClass = type("ChatHandler", (Handler,), {"chat": chat})
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield chat
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture
def served(server: Server) -> Callable[..., ModelRole]:
    """Make a role whose model is the server's."""

    def make(**changes: Any) -> ModelRole:
        fixed = {"provider": "openai", "model": "m", "base_url": server.url, "timeout": 20}
        return ModelRole.model_validate({**fixed, **changes})

    return make


@pytest.fixture
def ask() -> Callable[..., ChatRequest]:
    """Make a request of one user message."""

    def make(prompt: str = "hi", role: Role = Role.TARGET, **changes: Any) -> ChatRequest:
        fields = {"stage": "rollout", "messages": (Message("user", prompt),), **changes}
        return ChatRequest(role=role, **fields)

    return make


@pytest.fixture
def reply() -> Callable[..., ChatReply]:
    """Make a reply that cost a cent and ``tokens`` tokens."""

    def make(text: str = "ok", tokens: int = 10) -> ChatReply:
        return ChatReply(text, "stop", "m", Usage(calls=1, prompt_tokens=tokens, cost_usd=0.01))

    return make


class Scripted:
    """A client in process: its outcomes in turn, the last one for ever."""

    def __init__(self, *outcomes: ChatReply | BaseException) -> None:
        self._outcomes = deque(outcomes)
        self.asked: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked.append(request)
        more = len(self._outcomes) > 1
        outcome = self._outcomes.popleft() if more else self._outcomes[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted
