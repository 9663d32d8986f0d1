"""Run a solver on a task and enforce its limits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeVar

from skillopt_ci.aio import TimeUp, off_the_clock, raise_if_cancelled, siblings, working_time
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Message
from skillopt_ci.model.types import (
    ChatClient,
    ChatReply,
    ChatRequest,
    ModelRefusal,
    ModelUnavailable,
    Role,
    Usage,
)
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import (
    AgentError,
    Asked,
    Attempt,
    Ending,
    Limit,
    ModelSaid,
    Nudged,
    Step,
    StepGraded,
    Told,
    ToolUsed,
)
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.task import Task
from skillopt_ci.util import last_line, user_errors

Kind = TypeVar("Kind", bound=Step)


@dataclass(slots=True)
class Transcript:
    """An attempt under way: ``opening`` has the prompt, ``said`` the messages after it."""

    opening: tuple[Message, ...]
    said: list[Message] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    progress: list[Score] = field(default_factory=list)
    turns: int = 0
    response: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.opening, *self.said)

    def add(self, step: Kind) -> Kind:
        match step:
            case Asked(messages):
                self.opening = messages
            case ModelSaid(message, usage):
                self.said.append(message)
                self.response = message.content or self.response
                self.turns += 1
                self.usage += usage
            case ToolUsed(call, output):
                self.said.append(Message("tool", output, tool_call_id=call.id))
            case Nudged(text):
                self.said.append(Message("user", text))
            case Told(kind, text):
                self.told.append(f"{kind}: {text}")
            case StepGraded(score):
                self.progress.append(score)
        return step

    def attempt(
        self, *, limit: Limit | None = None, ending: Ending = "done", reason: str = ""
    ) -> Attempt:
        return Attempt(
            self.messages,
            self.response,
            n_turns=max(1, self.turns),
            trace="\n".join(self.told),
            limit=limit,
            usage=self.usage,
            ending=ending,
            reason=reason,
        )


@dataclass(eq=False)
class LimitReached(Exception):
    """A limit forbids the next step; the work so far counts."""

    limit: Limit


@dataclass(slots=True)
class LimitTracker:
    """Counts an attempt's steps, and what they spent; a limit of 3 steps admits 3."""

    limits: AttemptLimits
    steps: int = 0
    spent: list[Usage] = field(default_factory=list)

    @property
    def reached(self) -> Limit | None:
        used = sum(self.spent, Usage())
        # a call without a known price must not hide what the others cost
        dollars = sum(usage.cost_usd or 0.0 for usage in self.spent)
        reached = {
            Limit.STEPS: self.limits.steps is not None and self.steps >= self.limits.steps,
            Limit.TOKENS: self.limits.tokens is not None and used.tokens >= self.limits.tokens,
            Limit.COST: self.limits.cost_usd is not None and dollars >= self.limits.cost_usd,
        }
        return next((limit for limit in reached if reached[limit]), None)

    def admit(self) -> None:
        if self.reached is not None:
            raise LimitReached(self.reached)
        self.steps += 1


TRACKER: ContextVar[LimitTracker | None] = ContextVar("limit_tracker", default=None)


@dataclass(frozen=True, slots=True)
class LimitedClient:
    inner: ChatClient

    async def complete(self, request: ChatRequest) -> ChatReply:
        tracker = TRACKER.get() if request.role is Role.TARGET else None
        if tracker is None:
            return await self.inner.complete(request)
        tracker.admit()
        reply = await self.inner.complete(request)
        tracker.spent.append(reply.usage)
        return reply


async def run_solver(
    solver: Solver,
    task: Task,
    skill: str,
    place: Workplace,
    *,
    limits: AttemptLimits | None,
    grade_every_step: bool,
    told: Callable[[Step], object],
    so_far: Transcript,
) -> Attempt:
    """Run ``solver``; ``so_far`` has what it did, even if this raises. None: no limits."""
    raised = f"environment: the solver {solver.name} raised"
    tracker = LimitTracker(limits or AttemptLimits(steps=None))

    async def follow() -> Attempt | None:
        TRACKER.set(tracker)  # for this task and those that it starts
        steps = solver.solve(task, skill, place)
        try:
            return await _followed(steps, place, tracker, grade_every_step, told, so_far)
        except SystemExit as error:  # it would end the event loop
            raise UsageError(f"{raised} {last_line(error)}") from error

    try:
        async with working_time(None if limits is None else limits.rollout_seconds), siblings():
            # Before Python 3.13, a TaskGroup that fails may leave its task marked as cancelled. In
            # a task of its own, the solver cannot make us mistake its time limit for Ctrl-C.
            found = await asyncio.create_task(follow())
            if found is None:
                raise_if_cancelled()  # the solver swallowed it
                raise UsageError("environment: the solver ended without an Attempt")  # noqa: TRY301
        raise_if_cancelled()  # on Ctrl-C, an answer is not all that it could have done
        # fill gaps in the result from the steps
        usage = sum(tracker.spent, Usage()) if so_far.usage == Usage() else so_far.usage
        attempt = replace(found, messages=found.messages or so_far.messages, usage=usage)
    except TimeUp:
        if place.hindered:
            raise GraderError(place.hindered[0]) from None
        if tracker.steps and not tracker.spent:
            raise ModelUnavailable("Time ran out before the model answered.") from None
        attempt = so_far.attempt(limit=Limit.TIME)
    except LimitReached as reached:
        attempt = so_far.attempt(limit=reached.limit)
    except ModelRefusal as refusal:
        attempt = so_far.attempt(ending="refused", reason=refusal.message)
        if not so_far.said:
            attempt = replace(attempt, messages=task.messages)
    except AgentError as error:
        attempt = so_far.attempt(ending="agent_error", reason=str(error))
    except BaseException:
        if type(solver).__module__.startswith("skillopt_ci."):
            raise
        with user_errors(raised):
            raise
    return replace(attempt, progress=tuple(so_far.progress))


async def _followed(
    steps: AsyncIterator[Step | Attempt],
    place: Workplace,
    tracker: LimitTracker,
    grade_every_step: bool,
    told: Callable[[Step], object],
    so_far: Transcript,
) -> Attempt | None:
    if not hasattr(steps, "aclose"):
        raise UsageError(
            f"environment: solve() returned {steps!r:.60}, expected an async generator"
        )
    result: Attempt | None = None
    unannounced = LimitTracker(place.limits)
    async with aclosing(steps) as followed:  # type: ignore[type-var]  # it has aclose()
        async for step in followed:
            if result is not None or not isinstance(step, Step | Attempt):
                raise UsageError(
                    f"environment: a solver yields steps and, last, one Attempt, not {step!r:.60}"
                )
            if isinstance(step, Attempt):
                result = step
                if not isinstance(step.response, str) or not all(
                    isinstance(one, Message) for one in step.messages
                ):
                    raise UsageError("environment: an Attempt has Messages and a response, a text")
                if step.usage != Usage():  # paid for, even if it fails after all
                    so_far.usage = step.usage
                continue
            if isinstance(step, ModelSaid):
                if not tracker.steps:  # the model was called outside of our client
                    unannounced.admit()
                unannounced.spent.append(step.usage)
            told(so_far.add(step))
            if grade_every_step and isinstance(step, ToolUsed):
                # ignore a grader's or judge's error: the final grading will report it
                with off_the_clock(), suppress(GraderError, ModelRefusal, ModelUnavailable):
                    if (score := await place.grade_now()) is not None:
                        told(so_far.add(StepGraded(score)))
    return result
