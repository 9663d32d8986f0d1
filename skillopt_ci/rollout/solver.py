"""Solvers: how the target model works on a task with the skill."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from skillopt_ci.computer.computer import Computer
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.messages import Message, fenced
from skillopt_ci.model.types import ChatClient, ChatRequest, Role
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.types import Asked, Attempt, Limit, ModelSaid, Step
from skillopt_ci.scorers.base import Score
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task


async def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Workplace:
    """The resources of one attempt.

    Model calls are charged to ``stage``; ``attempt`` distinguishes independent samples. The runner
    enforces ``limits`` (time, steps, tokens, cost); a solver may read them to end gracefully.
    ``computer`` is set up already, or None if the task needs none. ``check_submission`` says why
    there is no valid submission yet, or None if there is one; an agent that ends without one is
    nudged at most ``nudges`` times. ``grade_now`` returns the score of the work so far, or None if
    that is unknown; the runner calls it after each tool use if the configuration says so. A solver
    that is cancelled while the target is not at work says so in ``hindered``: if the time is over,
    the attempt is not measured, for this reason.
    """

    stage: str
    attempt: int = 0
    limits: AttemptLimits = field(default_factory=AttemptLimits)
    computer: Computer | None = None
    nudges: int = 0
    check_submission: Callable[[], Awaitable[str | None]] = _nothing
    grade_now: Callable[[], Awaitable[Score | None]] = _nothing
    hindered: list[str] = field(default_factory=list)


class Solver(Protocol):
    @property
    def name(self) -> str:
        """The name in records: ``chat``, ``agent``, ``claude-code``, …."""

    @property
    def needs_computer(self) -> bool:
        """Whether every task needs a computer."""

    def identity(self) -> Mapping[str, object]:
        """JSON facts that determine its behaviour, for keys and fingerprints; never a secret."""

    def solve(self, task: Task, skill: str, place: Workplace) -> AsyncIterator[Step | Attempt]:
        """Yield steps as they happen, then one Attempt; if cancelled, leave nothing running.

        An exception after the Attempt takes it back, but not its usage.
        """


@dataclass(frozen=True, slots=True)
class ChatSolver:
    """One chat call: the skill in the system prompt, then the task's own messages."""

    client: ChatClient
    prompts: Prompts
    name: ClassVar = "chat"
    needs_computer: ClassVar = False

    def identity(self) -> Mapping[str, object]:
        return {"type": self.name, "prompt": self.prompts.texts["target"]}

    async def solve(
        self, task: Task, skill: str, place: Workplace
    ) -> AsyncIterator[Step | Attempt]:
        request = self.first_request(task, skill, place.stage, place.attempt)
        yield Asked(request.messages)
        reply = await self.client.complete(request)
        said = Message("assistant", reply.text)
        yield ModelSaid(said, reply.usage)
        cut = Limit.TOKENS if reply.finish_reason == "length" else None
        yield Attempt(
            (*request.messages, said), reply.text, trace=reply.trace, limit=cut, usage=reply.usage
        )

    def first_request(self, task: Task, skill: str, stage: str, attempt: int) -> ChatRequest:
        return ChatRequest(
            Role.TARGET, stage, conversation(task, skill, self.prompts), attempt=attempt
        )


def conversation(
    task: Task, skill: str, prompts: Prompts, prompt: str = "target"
) -> tuple[Message, ...]:
    """The messages for ``task`` and ``skill``; only one system message, as many servers demand."""
    own = [message.content for message in task.messages if message.role == "system"]
    system = "\n\n".join([prompts.with_skill(prompt, as_read(skill)), *own])
    turns = [message for message in task.messages if message.role != "system"]
    if attached := attachments(task):
        last = turns[-1]
        content = "\n\n".join([last.content, *attached])
        turns[-1] = Message(last.role, content, tuple(one.image for one in task.images))
    return (Message("system", system), *turns)


def attachments(task: Task) -> list[str]:
    """The task's files as texts for a prompt, and the names of its pictures."""
    return [
        *(f"File {file.name}:\n{fenced(file.content)}" for file in task.files),
        *(f"Picture: {image.name}" for image in task.images),
    ]


def task_text(task: Task) -> str:
    """The task as one text, for agents and people, who take no conversation."""
    several = len(task.messages) > 1
    said = [f"{m.role.capitalize()}:\n{m.content}" if several else m.content for m in task.messages]
    return "\n\n".join([*said, *attachments(task)])
