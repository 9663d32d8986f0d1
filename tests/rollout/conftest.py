"""A scripted model (the one thing that is not real here) and makers of values."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skillopt_ci.computer.local import Unconfined
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.rollout.computer_pool import ComputerPool
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.rollout.types import Attempt, Rollout, Status, Step
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


Work = Callable[[Task, Workplace], AsyncIterator[Step | Attempt]]


@dataclass
class Solving:
    """A solver that does what ``work`` does; ``done`` has the ids of the tasks it was given."""

    work: Work
    name: str = "test"
    needs_computer: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    skills: list[str] = field(default_factory=list)

    def identity(self) -> Mapping[str, object]:
        return self.facts

    def solve(self, task: Task, skill: str, place: Workplace) -> AsyncIterator[Step | Attempt]:
        self.done.append(task.id)
        self.skills.append(skill)
        return self.work(task, place)


@pytest.fixture
def solving() -> type[Solving]:
    return Solving


@pytest.fixture
def places() -> ComputerPool:
    """Real computers, but not confined: quick, and there everywhere."""
    return ComputerPool(Unconfined(os.environ["PATH"]))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AttemptStore]:
    with closing(AttemptStore(tmp_path / "attempts.sqlite")) as store:
        yield store


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
