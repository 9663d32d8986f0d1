"""Environments: where tasks come from, how solvers attempt them, and how attempts are graded."""

from abc import ABC, abstractmethod
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from skillopt_ci.computer.computer import Computer, Computers
from skillopt_ci.config.config import Config, Gradient
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.messages import Message, fenced
from skillopt_ci.model.types import ChatClient, ChatRequest, Role
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.types import Asked, Attempt, Limit, ModelSaid, Rollout, Step
from skillopt_ci.scorers.base import Judge, Score
from skillopt_ci.skill.edits import Source
from skillopt_ci.skill.regions import as_read
from skillopt_ci.tasks.task import Task

Split = Literal["train", "selection", "test"]


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


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a run that an environment can use.

    All model calls must go through ``client``, which caches, meters and enforces budgets.
    ``solver`` is the configured one; ``grade`` uses the task's or the run's scorer and raises
    GraderError if that fails. ``computers`` may be None; ``root`` is the configuration's folder.
    """

    client: ChatClient
    prompts: Prompts
    judge: Judge
    config: Config
    root: Path
    environ: Mapping[str, str]
    computers: Computers | None
    solver: Solver
    grade: Callable[[Task, Attempt], Awaitable[Score]]


@dataclass(frozen=True, slots=True)
class Reflecting:
    """The input of reflection: the measured ``rollouts`` of one batch under ``skill``.

    ``update_mode`` says what a patch consists of, ``budget`` how many edits it may propose (None:
    no limit). ``gradient`` has the stage's settings. ``step_buffer`` describes earlier steps and
    reviewers' requests, ``meta_skill`` earlier epochs. Rollouts of the kinds in ``notes_from``
    should also yield notes for the appendix. ``seed`` is for shuffling.
    """

    rollouts: tuple[Rollout, ...]
    skill: str
    update_mode: str
    budget: int | None
    gradient: Gradient
    seed: int
    step_buffer: str = ""
    meta_skill: str = ""
    notes_from: Collection[Source] = ()


class Environment(ABC):
    """Tasks and the work on them. Only :meth:`tasks` is required.

    ``options`` are the keys of the block besides its type; ``root`` is the configuration's folder.
    """

    def __init__(self, options: Mapping[str, object], root: Path) -> None:
        self.options = options
        self.root = root

    @abstractmethod
    def tasks(self, split: Split) -> Iterable[Task]:
        """The tasks of a split, always the same and in the same order."""

    def solver(self, parts: Parts) -> Solver:
        return parts.solver

    async def grade(self, task: Task, attempt: Attempt, parts: Parts) -> Score:
        """Grade an attempt; raise ``scorers.base.GraderError`` if the grader fails."""
        return await parts.grade(task, attempt)

    @property
    def grades(self) -> bool:
        """Whether it does its own grading instead of using scorers."""
        return type(self).grade is not Environment.grade

    @property
    def code(self) -> Literal["none", "confined", "inside"]:
        """Where its code handles answers: nowhere, in a confined process, or inside this one."""
        solves = type(self).solver is not Environment.solver
        return "inside" if solves or self.grades or self.reflects else "none"

    def prompts(self) -> Mapping[str, str]:
        """Prompts by the names of those they replace; the `prompts` folder takes precedence."""
        return {}

    async def reflect(
        self, asked: Reflecting, client: ChatClient
    ) -> Sequence[Mapping[str, object]]:
        """Propose patches of the skill, in the form that SkillOpt's analysts return.

        Each is JSON with `patch` (`reasoning`, and `edits` or the update mode's name for them),
        `source_type` (`failure` or `success`) and any other key of the analysts' replies.
        ``client`` calls the optimizer. Raises :class:`EnvironmentFailure`.
        """
        raise NotImplementedError

    @property
    def reflects(self) -> bool:
        """Whether it reflects instead of the analysts."""
        return type(self).reflect is not Environment.reflect

    def identity(self) -> Mapping[str, object]:
        """Return JSON facts that scores depend on besides the tasks; never include a secret."""
        return {"type": type(self).__qualname__, "options": dict(self.options)}

    def close(self) -> None:
        return
