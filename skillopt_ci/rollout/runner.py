"""Roll out tasks: solve, grade and classify each attempt, many at once, results in task order."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from skillopt_ci.chat import Message
from skillopt_ci.concurrency import map_ordered
from skillopt_ci.errors import TooManyErrors
from skillopt_ci.model.client import ModelRefusal, ModelUnavailable
from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.rollout.solver import Attempt, Solver
from skillopt_ci.tasks.scorers.score import GraderError, Scorer
from skillopt_ci.tasks.task import Task


class Scorers(Protocol):
    """Finds the scorer of a task."""

    def __call__(self, task: Task) -> Scorer:
        """Return the scorer that grades ``task``."""
        ...


@dataclass(frozen=True, slots=True)
class Runner:
    """Everything that one rollout needs.

    ``concurrency`` bounds the attempts under way, those of several calls together.
    """

    solver: Solver
    scorers: Scorers
    concurrency: int
    slots: asyncio.Semaphore = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", asyncio.Semaphore(self.concurrency))

    async def roll_out(
        self,
        tasks: Sequence[Task],
        skill: str,
        *,
        stage: str,
        attempt: int = 0,
        done: Callable[[Rollout], None] | None = None,
    ) -> tuple[Rollout, ...]:
        """Attempt every task once under ``skill``.

        ``done`` is called with each result as it comes. Errors that belong to one task become its
        outcome; a wrong configuration or a used-up budget cancels the rest and is raised.
        """

        async def one(task: Task) -> Rollout:
            async with self.slots:
                rollout = await self._attempt(task, skill, stage, attempt)
            if done is not None:
                done(rollout)
            return rollout

        return tuple(await map_ordered(one, tasks, limit=self.concurrency))

    async def _attempt(self, task: Task, skill: str, stage: str, attempt: int) -> Rollout:
        try:
            solved = await self.solver.solve(task, skill, stage=stage, attempt=attempt)
        except ModelRefusal as refusal:
            return _unanswered(task, attempt, Status.REFUSED, refusal.message)
        except ModelUnavailable as failure:
            return _unanswered(task, attempt, Status.ERROR, failure.message)
        return await self._grade(task, solved, attempt)

    async def _grade(self, task: Task, solved: Attempt, attempt: int) -> Rollout:
        def outcome(status: Status, hard: float, soft: float, reason: str, answer: str) -> Rollout:
            return Rollout(
                task_id=task.id,
                status=status,
                hard=hard,
                soft=soft,
                reason=reason,
                answer=answer,
                messages=solved.messages,
                task_type=task.task_type,
                n_turns=solved.n_turns,
                attempt=attempt,
                trace=solved.trace,
            )

        try:
            score = await self.scorers(task).score(task, solved.response)
        except (GraderError, ModelUnavailable, ModelRefusal) as failure:
            return outcome(Status.GRADER_ERROR, 0.0, 0.0, failure.message, solved.response)
        return outcome(Status.SCORED, score.hard, score.soft, score.reason, score.answer)


def _unanswered(task: Task, attempt: int, status: Status, reason: str) -> Rollout:
    asked: tuple[Message, ...] = task.messages
    return Rollout(
        task_id=task.id,
        status=status,
        hard=0.0,
        soft=0.0,
        reason=reason,
        answer="",
        messages=asked,
        task_type=task.task_type,
        attempt=attempt,
    )


def refuse_too_many_errors(rollouts: Sequence[Rollout], limit: float, what: str) -> None:
    """Raise :class:`TooManyErrors` when more than the share ``limit`` of attempts is unmeasured.

    Nothing measured at all is always too little.
    """
    errors = [rollout for rollout in rollouts if not rollout.status.measured]
    if not errors or (len(errors) <= limit * len(rollouts) and len(errors) < len(rollouts)):
        return
    reasons = [error.reason for error in errors]
    commonest = max(dict.fromkeys(reasons), key=reasons.count)
    raise TooManyErrors(
        f"{len(errors)} of {len(rollouts)} {what} tasks could not be measured "
        f"(evaluation.max_error_rate is {limit:g}). Most often: {commonest}",
        hint="Nothing was committed, and every answer that was paid for is kept: "
        "run the command again when the cause is gone.",
    )
