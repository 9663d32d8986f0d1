"""A client whose questions to the optimizer wait for a place, whatever stage asks them."""

from dataclasses import dataclass

from skillopt_ci.aio import Places
from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest, Role


@dataclass(frozen=True, slots=True)
class ScheduledClient:
    """Hands on requests; those to the optimizer keep one of ``questions`` until they are answered.

    Attempts at tasks have places of their own, in which they make their calls.
    """

    inner: ChatClient
    questions: Places

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``."""
        if request.role is not Role.OPTIMIZER:
            return await self.inner.complete(request)
        async with self.questions.place():
            return await self.inner.complete(request)
