"""A scripted optimizer model (the one thing that is not real here) and makers of values."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.progress import Event, Observer
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.types import Rollout, Status
from skillopt_ci.tasks.task import Task

Script = Callable[[ChatRequest], str | Exception]


@dataclass
class ScriptedModel:
    """Answers by ``script``; ``turns`` says after how many rounds of the event loop."""

    script: Script
    turns: Callable[[ChatRequest], int] = lambda request: 1
    finish_reason: str = "stop"
    requests: list[ChatRequest] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        for _ in range(self.turns(request)):
            await asyncio.sleep(0)
        self.under_way -= 1
        answer = self.script(request)
        if isinstance(answer, Exception):
            raise answer
        return ChatReply(answer, self.finish_reason, "scripted", Usage(calls=1))

    @property
    def prompts(self) -> list[str]:
        return [request.messages[1].content for request in self.requests]


@pytest.fixture
def scripted() -> type[ScriptedModel]:
    return ScriptedModel


@pytest.fixture(scope="session")
def prompts() -> Prompts:
    return Prompts.load()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def observer(events: list[Event]) -> Observer:
    return events.append


@pytest.fixture
def make_rollout() -> Callable[..., Rollout]:
    def make(name: str, hard: float = 0.0, **changes: object) -> Rollout:
        values: dict[str, object] = {
            "task_id": name,
            "status": Status.SCORED,
            "hard": hard,
            "soft": hard,
            "reason": f"wrong: {name}",
            "answer": "42",
            "messages": (Message("user", f"ask {name}"), Message("assistant", f"say {name}")),
        }
        return Rollout(**(values | changes))

    return make


@pytest.fixture
def make_task() -> Callable[..., Task]:
    return lambda name, **changes: Task(name, (Message("user", f"ask {name}"),), **changes)
