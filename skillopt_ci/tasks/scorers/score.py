"""The verdict on one answer, and the shape of everything that gives one."""

from dataclasses import dataclass
from typing import Protocol

from skillopt_ci.errors import SkilloptError
from skillopt_ci.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Score:
    """``hard`` is 1 for solved and 0 otherwise, ``soft`` is partial credit from 0 to 1.

    ``reason`` says in words why; ``answer`` is what was taken out of the response.
    """

    hard: float
    soft: float
    reason: str
    answer: str


class GraderError(SkilloptError):
    """The scorer itself failed: the attempt stays unscored and can be graded again."""


class GraderBroke(GraderError):
    """The grader's program failed on this work; whether on any other too is not known yet."""


class Scorer(Protocol):
    """Grades responses to tasks."""

    async def score(self, task: Task, response: str) -> Score:
        """Grade ``response``; raises :class:`GraderError` when the grader is at fault."""
        ...


class Judge(Protocol):
    """Asks the judge model one question and returns its text."""

    async def __call__(self, prompt: str) -> str:
        """Answer ``prompt``; may raise the model layer's errors."""
        ...
