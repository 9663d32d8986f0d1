"""A client whose calls are held to the budgets, priced, and booked when they are answered."""

from collections.abc import Mapping
from dataclasses import replace

from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest, ModelRefusal
from skillopt_ci.model.forecast import Forecast
from skillopt_ci.model.meter import Meter
from skillopt_ci.model.prices import Tariff
from skillopt_ci.model.usage import Account, Usage


class MeteredClient:
    """Asks ``meter`` before each call and tells it what the call consumed.

    ``tariffs`` price the calls by role. A call that fails without an answer is not counted.
    """

    def __init__(
        self, inner: ChatClient, meter: Meter, tariffs: Mapping[str, Tariff] | None = None
    ) -> None:
        self._inner = inner
        self._meter = meter
        self._tariffs = tariffs or {}
        self._forecast = Forecast()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; raises :class:`~skillopt_ci.errors.BudgetExhausted` before a call."""
        expected = self._priced(request, self._forecast.expect(request))
        await self._meter.reserve(expected)
        try:
            reply = await self._inner.complete(request)
            usage = self._book(request, reply.usage)
        except ModelRefusal as refusal:
            refusal.usage = self._book(request, refusal.usage)
            raise
        finally:
            self._meter.release(expected)
        return replace(reply, usage=usage)

    def _book(self, request: ChatRequest, reported: Usage) -> Usage:
        usage = self._priced(request, reported)
        self._forecast.learn(request, usage)
        self._meter.pay(Account(request.role, request.stage), usage)
        return usage

    def _priced(self, request: ChatRequest, usage: Usage) -> Usage:
        tariff = self._tariffs.get(request.role)
        return usage if tariff is None else replace(usage, cost_usd=tariff.priced(usage))
