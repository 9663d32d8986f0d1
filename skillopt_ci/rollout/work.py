"""Let a solver work on a task, within its limits, whatever it does."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from skillopt_ci.aio import TimeUp, off_the_clock, working_time
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.model.types import ModelRefusal, Usage
from skillopt_ci.rollout.allowance import Allowance, LimitReached
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.steps import (
    AgentError,
    Attempt,
    GradedStep,
    Limit,
    ModelSaid,
    Step,
    ToolUsed,
)
from skillopt_ci.rollout.transcript import Transcript
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.task import Task

#: How the work ended: with something to grade, or with an outcome of its own.
Ending = Literal["done", "refused", "agent_error"]


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of the work before it is graded; ``reason`` says why there is nothing to grade.

    ``progress`` are the scores after each step, where every step is graded.
    """

    attempt: Attempt
    ending: Ending = "done"
    reason: str = ""
    progress: tuple[Score, ...] = ()


async def work(
    solver: Solver,
    task: Task,
    skill: str,
    place: Workplace,
    *,
    limits: AttemptLimits | None,
    grade_every_step: bool,
    told: Callable[[Step], None],
    so_far: Transcript,
) -> Worked:
    """Let ``solver`` work on ``task``; what it has done is in ``so_far``, even when this raises.

    ``limits`` None leaves it to the solver how long it takes. ``told`` hears of every step. Raises
    what solvers raise that is neither the agent's own failure nor the prompt's.
    """
    allowance = Allowance(limits or AttemptLimits(steps=None))
    steps = _Steps(place, allowance, so_far, told, grade_every_step)
    try:
        async with working_time(None if limits is None else limits.rollout_seconds):
            with allowance.applied():
                attempt = await steps.follow(solver.solve(task, skill, place))
    except TimeUp:
        attempt = so_far.attempt(Limit.TIME)
    except LimitReached as reached:
        attempt = so_far.attempt(reached.limit)
    except ModelRefusal as refusal:
        return _ended(so_far, "refused", refusal.message)
    except AgentError as error:
        return _ended(so_far, "agent_error", str(error))
    return Worked(attempt, progress=tuple(so_far.progress))


@dataclass(frozen=True, slots=True)
class _Steps:
    """Follows the steps of one attempt."""

    place: Workplace
    allowance: Allowance
    so_far: Transcript
    told: Callable[[Step], None]
    grade_every_step: bool

    async def follow(self, steps: AsyncIterator[Step | Attempt]) -> Attempt:
        """Return the result that ends ``steps``; raises AgentError if there is none, or another."""
        own = Allowance(self.place.limits)
        result: Attempt | None = None
        async with aclosing(steps) as followed:  # type: ignore[type-var]  # solvers are generators
            async for step in followed:
                if result is not None:
                    raise AgentError("The solver went on after its result.")
                if isinstance(step, Attempt):
                    result = step
                else:
                    await self._take(step, own)
        if result is None:
            raise AgentError("The solver ended without a result.")
        return self._whole(result)

    async def _take(self, step: Step, own: Allowance) -> None:
        """Take a step; one that no call of ours announced is counted here."""
        if isinstance(step, ModelSaid):
            if not self.allowance.steps:
                own.admit()
            own.charge(step.usage)
        self.so_far.add(step)
        self.told(step)
        if self.grade_every_step and isinstance(step, ToolUsed):
            await self._grade()

    async def _grade(self) -> None:
        with off_the_clock():
            try:
                score = await self.place.grade_now()
            except GraderError:
                return  # the work goes on; its end is graded again, and that error is told
        if score is not None:
            self.so_far.add(GradedStep(score))
            self.told(GradedStep(score))

    def _whole(self, attempt: Attempt) -> Attempt:
        """Return the result, with what its steps tell where it leaves that out."""
        known = self.so_far.attempt(attempt.limit)
        told = (attempt.usage, known.usage, self.allowance.usage)
        usage = next((one for one in told if one != Usage()), Usage())
        return replace(attempt, messages=attempt.messages or known.messages, usage=usage)


def _ended(so_far: Transcript, ending: Ending, reason: str) -> Worked:
    return Worked(so_far.attempt(), ending, reason, tuple(so_far.progress))
