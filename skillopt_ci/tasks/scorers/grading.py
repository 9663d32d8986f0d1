"""What all families of scorers share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from skillopt_ci.settings.scorer import AnswerScorer
from skillopt_ci.tasks.answers import extract
from skillopt_ci.tasks.scorers.score import GraderError, Score
from skillopt_ci.tasks.task import Task

Spec = TypeVar("Spec", bound=AnswerScorer)

#: Sums of weights and of shares reach a threshold up to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class AnswerGrader(Generic[Spec]):
    """A scorer that needs nothing but the answer and the task."""

    spec: Spec
    grade: Callable[[Spec, Task, str], Score]
    check: Callable[[Spec, Task], str | None]

    async def score(self, task: Task, response: str) -> Score:
        """Grade the answer inside ``response``; a task without what it takes is a grader error."""
        if fault := self.check(self.spec, task):
            raise GraderError(f"task {task.id!r} cannot be graded: {fault}")
        answer = extract(response, self.spec.answer, self.spec.tag)
        return self.grade(self.spec, task, answer)


def verdict(solved: bool, reason: str, answer: str, *, soft: float | None = None) -> Score:
    """A score with ``hard`` from ``solved``, and ``soft`` the same unless it is given."""
    hard = float(solved)
    return Score(hard, hard if soft is None else soft, reason, answer)


def reaches(soft: float, threshold: float) -> bool:
    """Whether ``soft`` is at least ``threshold``, rounding errors aside."""
    return soft >= threshold - _ROUNDING


def needs_references(_spec: object, task: Task) -> str | None:
    """Why a scorer that compares with references cannot grade ``task``; None if it can."""
    return (
        None
        if task.references
        else "the task has no references to compare with (a list of texts under `references`)"
    )
