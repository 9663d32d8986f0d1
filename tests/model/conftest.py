"""A scripted chat server on a real socket, and the requests and settings to reach it with."""

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from http_server import Handler, http_server

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.messages import Message
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import ChatReply, ChatRequest, Role, Usage


def answers(
    models: Models,
    *requests: ChatRequest,
    environ: Mapping[str, str] = {},
    meter: Meter | None = None,
    at_once: bool = False,
    **opened: Any,
) -> list[ChatReply]:
    """Ask through all that a run puts around a client."""

    async def asked() -> list[ChatReply]:
        async with open_router(models.roles, environ, **opened) as router:
            asking = map(router.for_work("step 1", meter or Meter()).complete, requests)
            return await asyncio.gather(*asking) if at_once else [await one for one in asking]

    return asyncio.run(asked())


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
        self.will({"error": {"message": message, **fields}}, status=status, headers=headers or {})

    def next(self) -> Response:
        if not self._script:
            self.will()
        return self._script.popleft()

    def prompts(self) -> list[str]:
        return [body["messages"][-1]["content"] for body in self.bodies]


class ChatHandler(Handler):
    chat: Server

    def respond(self) -> None:
        self.chat.bodies.append(json.loads(self.content()))
        self.chat.peers.add(self.client_address)
        self.chat.paths.append(self.path)
        self.chat.headers.append({name.lower(): value for name, value in self.headers.items()})
        response = self.chat.next()
        self.chat.arrived.set()
        if response.gate:
            response.gate.wait(60)
        if response.hangs_up:
            self.close_connection = True
        else:
            self.answer(response.body, response.status, response.headers, cut=response.cut)


@pytest.fixture
def server() -> Iterator[Server]:
    chat = Server("")
    with http_server(ChatHandler, chat=chat) as address:
        chat.url = f"{address}/v1"
        yield chat


@pytest.fixture
def served(server: Server) -> Callable[..., ModelRole]:

    def make(**changes: Any) -> ModelRole:
        fixed = {"provider": "openai", "model": "m", "base_url": server.url, "timeout": 20}
        return ModelRole.model_validate({**fixed, **changes})

    return make


@pytest.fixture
def ask() -> Callable[..., ChatRequest]:

    def make(prompt: str = "hi", role: Role = Role.TARGET, **changes: Any) -> ChatRequest:
        fields = {"stage": "rollout", "messages": (Message("user", prompt),), **changes}
        return ChatRequest(role=role, **fields)

    return make


@pytest.fixture
def reply() -> Callable[..., ChatReply]:

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
