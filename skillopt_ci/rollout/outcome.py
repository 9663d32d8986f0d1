"""What came of one attempt at one task."""

from dataclasses import dataclass, field
from enum import StrEnum

from skillopt_ci.messages import Message
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.steps import Limit
from skillopt_ci.scorers.base import Score

#: Below this a hard score counts as a failure (SkillOpt's rule, so that 0.5 is a success).
FAILURE_BELOW = 1e-9


class Status(StrEnum):
    """How an attempt ended. Only some of them say something about the model."""

    SCORED = "scored"
    LIMIT = "limit"
    """A limit ended the work before the agent did; what there was by then is graded."""
    REFUSED = "refused"
    """The server would not answer this prompt (content filter, too long): scores 0."""
    AGENT_ERROR = "agent_error"
    """The agent itself failed (crashed, broke its protocol): scores 0."""
    GRADER_ERROR = "grader_error"
    """There is an answer, but the scorer failed: unscored, can be graded again."""
    ERROR = "error"
    """Infrastructure failed: unscored."""
    CANCELLED = "cancelled"
    """The work was given up from outside: never a result, only told in events."""

    @property
    def measured(self) -> bool:
        """Whether the attempt has a score."""
        return self in (Status.SCORED, Status.LIMIT, Status.REFUSED, Status.AGENT_ERROR)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at one task; ``hard`` and ``soft`` are 0 unless ``status.measured``.

    ``messages`` is the whole conversation, system prompt first. ``reason`` says in words why the
    score is what it is, or what failed. ``trace`` is what an agent tells of how it went about it.
    ``limit`` says which limit ended the work, if one did; ``usage`` is what the attempt consumed,
    whoever paid for it and when; ``retries`` counts the tries that infrastructure spoilt before
    this one. ``progress`` holds the scores after each step, where every step is graded.
    ``artifacts`` is what the work left behind, kept only where an environment reflects on it.
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
        """Whether the model is known to have failed the task."""
        return self.status.measured and self.hard < FAILURE_BELOW

    @property
    def succeeded(self) -> bool:
        """Whether the model is known to have solved the task."""
        return self.status.measured and not self.hard < FAILURE_BELOW
