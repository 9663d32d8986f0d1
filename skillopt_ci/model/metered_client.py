"""A client whose calls are held to the budgets and booked when they are answered."""

from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest, ModelRefusal
from skillopt_ci.model.meter import Meter


class MeteredClient:
    """Asks ``meter`` before each call and tells it what the call consumed.

    A call that fails without an answer is not counted.
    """

    def __init__(self, inner: ChatClient, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; raises :class:`~skillopt_ci.errors.BudgetExhausted` before a call."""
        self._meter.reserve()
        try:
            reply = await self._inner.complete(request)
        except ModelRefusal as refusal:
            self._meter.charge(request.stage, refusal.usage)
            raise
        finally:
            self._meter.release()
        self._meter.charge(request.stage, reply.usage)
        return reply
