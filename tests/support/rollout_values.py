"""A scripted model (the one thing that is not real in tests of rollouts) and makers of values."""

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skillopt_ci.computer.local import Unconfined
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage
from skillopt_ci.rollout import metrics
from skillopt_ci.rollout.computer_pool import ComputerPool
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import Attempt, Limit, Rollout, Status, Step
from skillopt_ci.tasks.task import Task

#: Real computers, but not confined: quick, and there everywhere.
PLACES = ComputerPool(Unconfined(os.environ["PATH"]))
Work = Callable[[Task, Workplace], AsyncIterator[Step | Attempt]]


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


def make_task(name: str, **changes: Any) -> Task:
    return Task(name, **{"messages": (Message("user", name),), "references": (name,), **changes})


def make_rollout(
    hard: float, status: Status = Status.SCORED, soft: float | None = None, reason: str = ""
) -> Rollout:
    return Rollout("t", status, hard, hard if soft is None else soft, reason, "", messages=())


def summed(attempts: Iterable[Rollout], **options: Any) -> metrics.Statistics:
    """The summary of an evaluation with these attempts."""
    return metrics.summarise(map(metrics.graded, attempts), **options)


def attempt(
    task: str,
    hard: float = 0.0,
    status: Status = Status.SCORED,
    *,
    reason: str = "",
    kind: str = "",
    limit: Limit | None = None,
    soft: float | None = None,
    messages: int = 0,
) -> Rollout:
    """An attempt at ``task`` that came to ``hard``."""
    said = (Message("user", "x"),) * messages
    partial = hard if soft is None else soft
    return Rollout(task, status, hard, partial, reason, "", said, task_type=kind, limit=limit)
