"""What all families of scorers share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from skillopt_ci.config.scorers import AnswerScorer
from skillopt_ci.tasks.answers import extract
from skillopt_ci.tasks.scorers.score import GraderBroke, GraderError, Score
from skillopt_ci.tasks.scorers.wording import one_line
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


async def blamed(
    work: Callable[[], Awaitable[Score]], empty: Callable[[], Awaitable[Score]], answer: str
) -> Score:
    """The score that ``work`` gives, or 0 if the work made the grader fail.

    That is so if the grader fails on it, does not fail on an empty submission (``empty``), and then
    fails on it once more. Raises :class:`GraderError` when the grader fails on both.
    """
    try:
        return await work()
    except GraderBroke as error:
        failure = error
    try:
        await empty()
    except GraderBroke as same:
        message = f"{failure.message}; on an empty submission: {same.message}"
        raise GraderError(message) from failure.__cause__
    try:
        return await work()
    except GraderBroke as again:
        reason = f"the grader fails on this work, not on an empty submission: {again.message}"
        return verdict(False, one_line(reason), answer)


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
