"""Let a solver work on a task, within its limits, whatever it does."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from skillopt_ci.aio import TimeUp, off_the_clock, working_time
from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, ModelRefusal, Role, Usage
from skillopt_ci.rollout.solver import Solver, Workplace
from skillopt_ci.rollout.types import (
    AgentError,
    Asked,
    Attempt,
    GradedStep,
    Limit,
    ModelSaid,
    Nudged,
    Step,
    Told,
    ToolUsed,
)
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.task import Task

Kind = TypeVar("Kind", bound=Step)


@dataclass(slots=True)
class Transcript:
    """The conversation so far; ``opening`` is what was asked, ``said`` what came of it."""

    opening: tuple[Message, ...]
    said: list[Message] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    progress: list[Score] = field(default_factory=list)
    turns: int = 0
    response: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation."""
        return (*self.opening, *self.said)

    def add(self, step: Kind) -> Kind:
        """Take note of ``step`` and return it."""
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
            case GradedStep(score):
                self.progress.append(score)
        return step

    def attempt(self, limit: Limit | None = None) -> Attempt:
        """Return the attempt that ends here."""
        return Attempt(
            messages=self.messages,
            response=self.response,
            n_turns=max(1, self.turns),
            trace="\n".join(self.told),
            limit=limit,
            usage=self.usage,
        )


# What an attempt may still ask of its model, checked before each call.


class LimitReached(Exception):
    """A limit forbids the next step; the work so far stands."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"the limit of {limit} was reached")
        self.limit = limit


class LimitTracker:
    """Counts the steps of one attempt, and what they consume, against its limits.

    A limit of 3 steps admits exactly 3.
    """

    def __init__(self, limits: AttemptLimits) -> None:
        self._limits = limits
        self.steps = 0
        self.usage = Usage()

    def admit(self) -> None:
        """Announce a step; raises :class:`LimitReached` if there may be no further one."""
        limits, used = self._limits, self.usage
        if limits.steps is not None and self.steps >= limits.steps:
            raise LimitReached(Limit.STEPS)
        if limits.tokens is not None and used.tokens >= limits.tokens:
            raise LimitReached(Limit.TOKENS)
        if limits.cost_usd is not None and (used.cost_usd or 0.0) >= limits.cost_usd:
            raise LimitReached(Limit.COST)
        self.steps += 1

    def charge(self, usage: Usage) -> None:
        """Book what a step consumed."""
        self.usage += usage

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Hold the target's calls of the body, and of tasks that it starts, to this allowance."""
        token = _ALLOWANCE.set(self)
        try:
            yield
        finally:
            _ALLOWANCE.reset(token)


_ALLOWANCE: ContextVar[LimitTracker | None] = ContextVar("allowance", default=None)


@dataclass(frozen=True, slots=True)
class LimitedClient:
    """Holds the target's calls to the allowance of the attempt that they are made in, if any."""

    inner: ChatClient

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; raises :class:`LimitReached` before a call beyond the limits."""
        allowance = _ALLOWANCE.get() if request.role is Role.TARGET else None
        if allowance is None:
            return await self.inner.complete(request)
        allowance.admit()
        reply = await self.inner.complete(request)
        allowance.charge(reply.usage)
        return reply


#: How the work ended: with something to grade, or with an outcome of its own.
Ending = Literal["done", "refused", "agent_error"]


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What came of the work before it is graded; ``reason`` says why there is nothing to grade.

    ``progress`` are the scores after each step, where every step is graded.
    """

    attempt: Attempt
    ending: Ending = "done"
    reason: str = ""
    progress: tuple[Score, ...] = ()


async def run_solver(
    solver: Solver,
    task: Task,
    skill: str,
    place: Workplace,
    *,
    limits: AttemptLimits | None,
    grade_every_step: bool,
    told: Callable[[Step], None],
    so_far: Transcript,
) -> WorkResult:
    """Let ``solver`` work on ``task``; what it has done is in ``so_far``, even when this raises.

    ``limits`` None leaves it to the solver how long it takes. ``told`` hears of every step. Raises
    what solvers raise that is neither the agent's own failure nor the prompt's.
    """
    allowance = LimitTracker(limits or AttemptLimits(steps=None))
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
    return WorkResult(attempt, progress=tuple(so_far.progress))


@dataclass(frozen=True, slots=True)
class _Steps:
    """Follows the steps of one attempt."""

    place: Workplace
    allowance: LimitTracker
    so_far: Transcript
    told: Callable[[Step], None]
    grade_every_step: bool

    async def follow(self, steps: AsyncIterator[Step | Attempt]) -> Attempt:
        """Return the result that ends ``steps``; raises AgentError if there is none, or another."""
        own = LimitTracker(self.place.limits)
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

    async def _take(self, step: Step, own: LimitTracker) -> None:
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


def _ended(so_far: Transcript, ending: Ending, reason: str) -> WorkResult:
    return WorkResult(so_far.attempt(), ending, reason, tuple(so_far.progress))
