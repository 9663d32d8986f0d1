"""Solvers: how the target model works on a task while reading the skill."""

from dataclasses import dataclass
from typing import Protocol

from skillopt_ci.chat import Message
from skillopt_ci.fence import fenced
from skillopt_ci.model.client import ChatClient, ChatRequest, Role
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the target did: the conversation, and the response that is graded.

    ``trace`` is what an agent tells of how it came to the response.
    """

    messages: tuple[Message, ...]
    response: str
    n_turns: int = 1
    trace: str = ""


class Solver(Protocol):
    """Works on one task under a skill."""

    async def solve(self, task: Task, skill: str, *, stage: str, attempt: int) -> Attempt:
        """Attempt ``task``; raises the model layer's errors."""
        ...


@dataclass(frozen=True, slots=True)
class ChatSolver:
    """One chat call: the skill in the system prompt, the task's own messages after it."""

    client: ChatClient
    prompts: Prompts

    async def solve(self, task: Task, skill: str, *, stage: str, attempt: int) -> Attempt:
        """Ask the target once."""
        messages = conversation(task, skill, self.prompts)
        request = ChatRequest(Role.TARGET, stage, messages, attempt=attempt)
        reply = await self.client.complete(request)
        said = Message("assistant", reply.text)
        return Attempt((*messages, said), reply.text, trace=reply.trace)


def conversation(task: Task, skill: str, prompts: Prompts) -> tuple[Message, ...]:
    """The messages that put ``task`` to a model that has read ``skill``.

    A system message of the task's own joins ours, since many servers accept only one; the task's
    files are appended to its last user message.
    """
    own = [message.content for message in task.messages if message.role == "system"]
    system = "\n\n".join([prompts.target(as_read(skill)), *own])
    turns = [message for message in task.messages if message.role != "system"]
    if task.files:
        last = turns[-1]
        turns[-1] = Message(last.role, f"{last.content}\n\n{_attachments(task)}")
    return (Message("system", system), *turns)


def _attachments(task: Task) -> str:
    return "\n\n".join(f"File {file.name}:\n{fenced(file.content)}" for file in task.files)
