"""One attempt: its request, the solver's steps, its result and its rollout."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from skillopt_ci.computer.computer import Computer
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.scorers.base import Score
from skillopt_ci.skill.document import sha256
from skillopt_ci.tasks.task import Task


class Limit(StrEnum):
    """The limit that ended an attempt before the agent did; the work is graded anyway."""

    TIME = "time"
    STEPS = "steps"
    TOKENS = "tokens"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class Asked:
    """The conversation begins with these messages, system prompt first. Told first, if at all."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ModelSaid:
    message: Message
    usage: Usage


@dataclass(frozen=True, slots=True)
class ToolUsed:
    """A tool was used; ``exit_code`` is None where the tool is no command."""

    call: ToolCall
    output: str
    exit_code: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Nudged:
    """The agent was told to go on, because what it had submitted is no valid submission."""

    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """An external agent told something of its work; ``kind`` is its own word for it."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class StepGraded:
    """What the work was worth at this point, where every step is graded."""

    score: Score


#: How the work ended: ready to grade, or with its own outcome.
Ending = Literal["done", "refused", "agent_error"]

Step = Asked | ModelSaid | ToolUsed | Nudged | Told | StepGraded


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the target did: the one result that ends the steps of an attempt.

    ``messages`` is the whole conversation, system prompt first. ``response`` is the text that is
    graded. ``trace`` is what an agent tells of how it came to the response. ``limit`` says which
    limit ended the work, if one did. ``artifacts`` is a tar of what the work left behind (see
    :meth:`Computer.export`), empty without a computer. ``usage`` is what the attempt consumed, if
    that is known. The runner sees to the others: ``computer`` is the one that it was made on while
    that is there, ``reason`` says why there is nothing to grade, ``progress`` has the step scores.
    """

    #: For attempts read from a file, possibly written by another machine.
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", str_max_length=50_000_000)

    messages: tuple[Message, ...]
    response: str
    n_turns: Annotated[int, Field(ge=0)] = 1
    trace: str = ""
    limit: Limit | None = None
    artifacts: Annotated[bytes, Field(exclude=True)] = b""
    usage: Usage = field(default_factory=Usage)
    computer: Annotated[Computer | None, Field(exclude=True)] = field(
        default=None, compare=False, repr=False
    )
    ending: Ending = "done"
    reason: str = ""
    progress: tuple[Score, ...] = ()


class AgentError(Exception):
    """The agent itself failed (crashed, broke its protocol): a separate outcome, scored 0."""


#: A hard score below this is a failure (SkillOpt's rule, by which 0.5 is a success).
FAILURE_BELOW = 1e-9


class Status(StrEnum):
    """How an attempt ended. Only some statuses say something about the model."""

    SCORED = "scored"
    #: A limit ended the work before the agent did; the work so far is graded.
    LIMIT = "limit"
    #: The server would not answer this prompt (content filter, too long): scores 0.
    REFUSED = "refused"
    #: The agent itself failed (crashed, broke its protocol): scores 0.
    AGENT_ERROR = "agent_error"
    #: There is an answer, but the scorer failed: unscored, can be regraded.
    GRADER_ERROR = "grader_error"
    #: Infrastructure failed: unscored.
    ERROR = "error"
    #: The work was cancelled from outside: appears only in events, never as a result.
    CANCELLED = "cancelled"

    @property
    def measured(self) -> bool:
        return self in (Status.SCORED, Status.LIMIT, Status.REFUSED, Status.AGENT_ERROR)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at one task; ``hard`` and ``soft`` are 0 unless ``status.measured``.

    Fields shared with :class:`Attempt` mean the same. ``reason`` explains the score or the failure.
    ``usage`` is what the attempt consumed, whoever paid for it and when. ``retries`` counts tries
    that infrastructure failed. ``artifacts`` are kept only if an environment reflects on them.
    """

    task_id: str
    status: Status
    hard: float
    soft: float
    reason: str
    answer: str
    messages: tuple[Message, ...]
    task_type: str = ""
    n_turns: int = 1
    attempt: int = 0
    trace: str = ""
    limit: Limit | None = None
    usage: Usage = field(default_factory=Usage)
    retries: int = 0
    progress: tuple[Score, ...] = ()
    artifacts: bytes = field(default=b"", repr=False)

    @property
    def failed(self) -> bool:
        return self.status.measured and self.hard < FAILURE_BELOW

    @property
    def succeeded(self) -> bool:
        return self.status.measured and not self.hard < FAILURE_BELOW


@dataclass(frozen=True, slots=True)
class AttemptRequest:
    """One attempt at ``task`` under ``skill``; its calls are charged to ``stage``."""

    task: Task
    skill: str
    stage: str
    attempt: int = 0


MakeAttempt = Callable[[AttemptRequest], Awaitable[Rollout]]

#: Decides where to make an attempt; the second argument makes it in this process.
Executor = Callable[[AttemptRequest, MakeAttempt], Awaitable[Rollout]]

#: The context of work outside any attempt; ``retry`` counts earlier tries.
_OUTSIDE = {"stage": "", "task": "", "attempt": 0, "skill": "", "retry": 0}
_CONTEXT: ContextVar[Mapping[str, object]] = ContextVar("attempt_context", default=_OUTSIDE)

#: Returns the context of the current work.
attempt_context = _CONTEXT.get


@contextmanager
def in_attempt(request: AttemptRequest, retry: int = 0) -> Iterator[None]:
    where = {"stage": request.stage, "task": request.task.id, "attempt": request.attempt}
    token = _CONTEXT.set({**where, "skill": sha256(request.skill), "retry": retry})
    try:
        yield
    finally:
        _CONTEXT.reset(token)
