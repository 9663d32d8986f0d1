"""What an attempt may still ask of its model, checked before each call."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, Role, Usage
from skillopt_ci.rollout.steps import Limit


class LimitReached(Exception):
    """A limit forbids the next step; the work so far stands."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(f"the limit of {limit} was reached")
        self.limit = limit


class Allowance:
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


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


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
