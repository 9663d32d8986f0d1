"""What a solver tells while it works on a task: typed steps, and at last one result."""

from dataclasses import dataclass, field
from enum import StrEnum

from skillopt_ci.computer.computer import Computer
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.types import Usage
from skillopt_ci.scorers.base import Score


class Limit(StrEnum):
    """What ended an attempt before the agent did; it is graded all the same."""

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
    """The target model answered; ``usage`` is what that call consumed."""

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
class GradedStep:
    """What the work was worth at this point, where every step is graded."""

    score: Score


Step = Asked | ModelSaid | ToolUsed | Nudged | Told | GradedStep


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the target did: the one result that ends the steps of an attempt.

    ``messages`` is the whole conversation, system prompt first. ``response`` is the text that is
    graded. ``trace`` is what an agent tells of how it came to the response. ``limit`` says which
    limit ended the work, if one did. ``artifacts`` is a tar of what the work left behind (see
    :meth:`skillopt_ci.computer.computer.Computer.export`), empty without a computer.
    ``usage`` is what the attempt consumed, where that is known. ``computer`` is the one that it was
    made on while that is still there, which the runner sees to.
    """

    messages: tuple[Message, ...]
    response: str
    n_turns: int = 1
    trace: str = ""
    limit: Limit | None = None
    artifacts: bytes = b""
    usage: Usage = field(default_factory=Usage)
    computer: Computer | None = field(default=None, compare=False, repr=False)


class AgentError(Exception):
    """The agent itself failed (crashed, broke its protocol): its own outcome, scored 0."""
