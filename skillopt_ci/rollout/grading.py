"""Grading of attempts: kept where it can be, tried again where infrastructure spoilt it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from skillopt_ci.computer.computer import ComputerFailure
from skillopt_ci.model.retry import backoff
from skillopt_ci.rollout.events import Recorder, TryFailed
from skillopt_ci.rollout.shelf import Shelf, sha256_of
from skillopt_ci.rollout.steps import Attempt
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.task import Task


class Grading(Protocol):
    """Grades attempts."""

    async def grade(self, task: Task, attempt: Attempt) -> Score:
        """Return the score; raises :class:`GraderError` when the grader is at fault."""
        ...

    def facts(self, task: Task) -> Mapping[str, object] | None:
        """Return what a score depends on besides the attempt; None where that is unknown."""
        ...

    def keeps_computer(self, task: Task) -> bool:
        """Return whether the agent's own computer is graded on."""
        ...


@dataclass(frozen=True, slots=True)
class Regrading:
    """Grades with ``grading``: the work is never done again for its sake."""

    grading: Grading
    shelf: Shelf | None
    retries: int
    record: Recorder
    sleep: Callable[[float], Awaitable[None]]
    draw: Callable[[], float]

    async def score(self, task: Task, attempt: Attempt, key: str) -> Score:
        """Grade the attempt that is stored under ``key``, if it is; raises GraderError."""
        facts = self.grading.facts(task) if key else None
        scorer = "" if facts is None else sha256_of(facts)
        known = self.shelf.find_grade(key, scorer) if self.shelf and scorer else None
        if known is not None:
            return known
        score = await self._tries(task, attempt)
        if self.shelf is not None and scorer:
            self.shelf.keep_grade(key, scorer, score)
        return score

    async def _tries(self, task: Task, attempt: Attempt) -> Score:
        for number in range(1, self.retries + 1):
            try:
                return await self.grading.grade(task, attempt)
            except GraderError as failure:
                if not isinstance(failure.__cause__, ComputerFailure):
                    raise
                self.record(TryFailed(failure.message))
            await self.sleep(backoff(number, None, self.draw))
        return await self.grading.grade(task, attempt)
