"""The scripted model on a real socket; it keeps what it was asked, whatever the protocol."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from urllib.parse import urlsplit

from http_server import Handler, http_server

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


class _Handler(Handler):
    model: AgentModel

    def respond(self) -> None:
        if self.command == "HEAD":
            return self._send(200, "text/plain", b"")
        body = json.loads(self.content() or b"{}")
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
        self.answer(content, status, {"Content-Type": kind})


def _written(event: tuple[str, Body]) -> str:
    name, data = event
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


def _key(headers: dict[str, str]) -> str:
    named = {name.lower(): value for name, value in headers.items()}
    bearer = named.get("authorization", "").removeprefix("Bearer ")
    return named.get("x-api-key") or named.get("x-goog-api-key") or bearer


@contextmanager
def serving() -> Iterator[AgentModel]:
    """Run the model until the end of the context."""
    model = AgentModel("")
    with http_server(_Handler, model=model) as model.url:
        yield model
