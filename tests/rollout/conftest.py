"""A scripted model (the one thing that is not real here) and makers of values."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from skillopt_ci.chat import Message
from skillopt_ci.model.client import ChatReply, ChatRequest, Usage
from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.tasks.task import Task

MakeTask = Callable[..., Task]
MakeRollout = Callable[..., Rollout]


@dataclass
class ScriptedModel:
    """Answers a request with what ``script`` makes of its last message, or raises that."""

    script: Callable[[str], str | Exception]
    requests: list[ChatRequest] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        answer = self.script(request.messages[-1].content)
        if isinstance(answer, Exception):
            raise answer
        return ChatReply(answer, "stop", "scripted", Usage(calls=1))


@pytest.fixture
def scripted() -> type[ScriptedModel]:
    return ScriptedModel


@pytest.fixture
def make_task() -> MakeTask:
    def make(name: str, **changes: object) -> Task:
        values: dict[str, object] = {"messages": (Message("user", name),), "references": (name,)}
        return Task(name, **(values | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_rollout() -> MakeRollout:
    def make(
        hard: float, status: Status = Status.SCORED, soft: float | None = None, reason: str = ""
    ) -> Rollout:
        partial = hard if soft is None else soft
        return Rollout("t", status, hard, partial, reason, "", messages=())

    return make
