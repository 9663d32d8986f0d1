"""A real computer to work on, a scripted chat server, and solvers played to their end."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from skillopt_ci.computer.computer import Computer, ComputerSpec
from skillopt_ci.computer.local import Unconfined
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatClient
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import Attempt, Step
from skillopt_ci.tasks.task import Task


@dataclass
class Played:
    """What a solver did: its steps, its result, and files of the workspace afterwards."""

    steps: list[Step] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def attempt(self) -> Attempt:
        (one,) = self.attempts
        return one

    def of(self, kind: type[Any]) -> list[Any]:
        return [step for step in self.steps if isinstance(step, kind)]


Play = Callable[..., Played]
Opened = Callable[[], AbstractAsyncContextManager[Solver]]


async def _look(computer: Computer, names: list[str]) -> dict[str, str]:
    return {name: (await computer.read(name)).decode() for name in names}


@pytest.fixture
def play() -> Play:
    """Play a solver (or what makes one in the event loop) on a task, in a workspace of its own."""

    async def run(
        solver: Solver | Opened,
        task: Task,
        skill: str,
        place: Workplace,
        look: list[str],
        files: dict[str, str],
        computer: bool,
    ) -> Played:
        played = Played()
        async with (
            Unconfined(os.environ["PATH"]).open(ComputerSpec()) as opened,
            solver() if callable(solver) else nullcontext(solver) as ready,
        ):
            for name, content in files.items():
                await opened.write(name, content.encode(), executable=True)
            at = replace(place, computer=opened if computer else None)
            async for step in ready.solve(task, skill, at):
                if isinstance(step, Attempt):
                    played.attempts.append(step)
                else:
                    assert not played.attempts, "a step after the result"
                    played.steps.append(step)
            played.files = await _look(opened, look)
        return played

    def now(
        solver: Solver | Opened,
        prompt: str = "Do it.",
        *,
        task: Task | None = None,
        skill: str = "# Rules\n\nBe brief.\n",
        place: Workplace | None = None,
        look: list[str] | None = None,
        files: dict[str, str] | None = None,
        computer: bool = True,
    ) -> Played:
        asked = task or Task("t", (Message("user", prompt),))
        at = place or Workplace("rollout")
        return asyncio.run(run(solver, asked, skill, at, look or [], files or {}, computer))

    return now


class ChatServer:
    """Answers with the messages of a script; each request's body is kept."""

    def __init__(self) -> None:
        self.url = ""
        self.script: deque[dict[str, Any]] = deque()
        self.bodies: list[dict[str, Any]] = []

    def says(self, text: str, *calls: tuple[str, object]) -> None:
        """Script one answer: words, and calls as name and arguments (a text is sent as it is)."""
        number = len(self.script)
        called = [
            {
                "id": f"c{number}.{place}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for place, (name, given) in enumerate(calls)
        ]
        message = {"role": "assistant", "content": text or None}
        self.script.append({**message, "tool_calls": called} if called else message)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    """A chat-completions server."""
    talk = ChatServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            talk.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            message = talk.script.popleft()
            usage = {"prompt_tokens": 100, "completion_tokens": 10}
            choice = {"message": message, "finish_reason": "stop"}
            content = json.dumps({"model": "m", "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        talk.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        yield talk
        server.shutdown()
        thread.join()


@pytest.fixture
def client(chat: ChatServer) -> Callable[[], AbstractAsyncContextManager[ChatClient]]:
    """Opens a client of that server."""
    from skillopt_ci.config.models import ModelRole
    from skillopt_ci.model.budget import BudgetedClient, Meter, tariff_of
    from skillopt_ci.model.openai_provider import connection_pool, open_client
    from skillopt_ci.model.types import Role

    price = {"input": 1, "output": 1}
    config = ModelRole.model_validate(
        {"provider": "openai", "model": "m", "base_url": chat.url, "price": price}
    )

    async def no_headers() -> dict[str, str]:
        return {}

    @asynccontextmanager
    async def opened() -> AsyncIterator[ChatClient]:
        async with connection_pool(2) as pool:
            server = open_client("model.target", config, "none", pool)
            yield BudgetedClient({Role.TARGET: server}, Meter(), {Role.TARGET: tariff_of(config)})

    return opened
