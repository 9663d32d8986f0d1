"""What came of one attempt at one task."""

from dataclasses import dataclass
from enum import StrEnum

from skillopt_ci.chat import Message

#: Below this a hard score counts as a failure (SkillOpt's rule, so that 0.5 is a success).
FAILURE_BELOW = 1e-9


class Status(StrEnum):
    """How an attempt ended. Only the first two say something about the model."""

    SCORED = "scored"
    REFUSED = "refused"
    """The server would not answer this prompt (content filter, too long): scores 0."""
    GRADER_ERROR = "grader_error"
    """There is an answer, but the scorer failed: unscored, can be graded again."""
    ERROR = "error"
    """Infrastructure failed: unscored."""

    @property
    def measured(self) -> bool:
        """Whether the attempt has a score."""
        return self in (Status.SCORED, Status.REFUSED)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at one task; ``hard`` and ``soft`` are 0 unless ``status.measured``.

    ``messages`` is the whole conversation, system prompt first. ``reason`` says in words why the
    score is what it is, or what failed. ``trace`` is what an agent tells of how it went about it.
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

    @property
    def failed(self) -> bool:
        """Whether the model is known to have failed the task."""
        return self.status.measured and self.hard < FAILURE_BELOW

    @property
    def succeeded(self) -> bool:
        """Whether the model is known to have solved the task."""
        return self.status.measured and not self.hard < FAILURE_BELOW
