"""The scripted model on a real socket; it keeps what it was asked, whatever the protocol."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from urllib.parse import urlsplit

from agent_model import generate_content, messages, responses
from agent_model.moves import Body, Plan

PROTOCOLS: tuple[ModuleType, ...] = (messages, responses, generate_content)


@dataclass(frozen=True)
class Refusal:
    """What is answered to every request in place of the model's words."""

    status: int
    told: str


@dataclass
class AgentModel:
    """A model for agents at ``url``; ``asked`` has the bodies of all requests, ``keys`` keys."""

    url: str
    plan: Plan = field(default_factory=Plan)
    refusal: Refusal | None = None
    asked: list[Body] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """Everything that was asked, as one text."""
        return json.dumps(self.asked, ensure_ascii=False)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: AgentModel

    def do_GET(self) -> None:
        self._send(404, "application/json", b'{"error": {"message": "no such page"}}')

    def do_HEAD(self) -> None:
        self._send(200, "text/plain", b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = urlsplit(self.path).path
        protocol = next((one for one in PROTOCOLS if path.endswith(one.PATH)), None)
        if protocol is None:
            return self._send(404, "application/json", b'{"error": {"message": "no such page"}}')
        self.model.asked.append(body)
        self.model.keys.add(_key(dict(self.headers.items())))
        return self._answer(protocol, path, body)

    def _answer(self, protocol: ModuleType, path: str, body: Body) -> None:
        refusal = self.model.refusal
        if refusal is not None:
            told = protocol.error(refusal.status, refusal.told)
            return self._send(refusal.status, "application/json", json.dumps(told).encode())
        move = self.model.plan.move(protocol.tools(body), protocol.results(body))
        number = len(self.model.asked)
        if not (body.get("stream") or "stream" in path):
            told = protocol.whole(body, move, number)
            return self._send(200, "application/json", json.dumps(told).encode())
        written = "".join(map(_written, protocol.stream(body, move, number)))
        return self._send(200, "text/event-stream", written.encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


def _written(event: tuple[str, Body]) -> str:
    name, data = event
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


def _key(headers: dict[str, str]) -> str:
    named = {name.lower(): value for name, value in headers.items()}
    bearer = named.get("authorization", "").removeprefix("Bearer ")
    return named.get("x-api-key") or named.get("x-goog-api-key") or bearer


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # an agent that was killed is part of what is tested


@contextmanager
def serving() -> Iterator[AgentModel]:
    """Run the model until the end of the context."""
    with _Server(("127.0.0.1", 0), _Handler) as http:
        model = AgentModel(f"http://127.0.0.1:{http.server_address[1]}")
        http.RequestHandlerClass = type("Handler", (_Handler,), {"model": model})
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield model
        finally:
            http.shutdown()
            thread.join()
