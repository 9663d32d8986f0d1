import asyncio
from typing import Any

import pytest

from skillopt_ci.config.config import Limits
from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.model.budget import Meter, MeteredClient, Tariff
from skillopt_ci.model.types import Account, ChatReply, ModelRefusal, ModelUnavailable, Usage


class Slow:
    """Answers after others had their turn, or fails."""

    def __init__(self, answer: Any, failing: int = 0) -> None:
        self.calls = 0
        self.answer = answer
        self.failing = failing

    async def complete(self, request: Any) -> Any:
        self.calls += 1
        if self.calls <= self.failing:
            raise ModelUnavailable("down")
        for _ in range(3):
            await asyncio.sleep(0)
        return self.answer


async def flood(client: MeteredClient, ask: Any, calls: int) -> list[Any]:
    asked = (client.complete(ask(str(i))) for i in range(calls))
    return await asyncio.gather(*asked, return_exceptions=True)


def test_a_budget_of_calls_holds_exactly_among_64_at_once(ask: Any, reply: Any) -> None:
    inner, meter = Slow(reply()), Meter(step=Limits(calls=40))
    outcomes = asyncio.run(flood(MeteredClient(inner, meter), ask, 64))
    stopped = [outcome for outcome in outcomes if isinstance(outcome, BudgetExhausted)]
    assert (inner.calls, meter.total().calls, len(stopped)) == (40, 40, 24)


def test_a_failed_call_gives_its_reservation_back(ask: Any, reply: Any) -> None:
    inner, meter = Slow(reply(), failing=5), Meter(step=Limits(calls=3))
    client = MeteredClient(inner, meter)
    for _ in range(5):
        with pytest.raises(ModelUnavailable):
            asyncio.run(client.complete(ask()))
    assert asyncio.run(client.complete(ask())).text == "ok"
    assert meter.total().calls == 1


def test_a_cancelled_call_gives_its_reservation_back(ask: Any, scripted: Any) -> None:
    meter = Meter(step=Limits(calls=1))
    client = MeteredClient(scripted(asyncio.CancelledError()), meter)

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await client.complete(ask())

    asyncio.run(run())
    asyncio.run(meter.reserve())


def test_a_refusal_is_booked_with_what_it_consumed(ask: Any, scripted: Any) -> None:
    meter, usage = Meter(), Usage(calls=1, prompt_tokens=7)
    client = MeteredClient(scripted(ModelRefusal("no", usage=usage)), meter)
    with pytest.raises(ModelRefusal):
        asyncio.run(client.complete(ask()))
    assert meter.usage_by_stage() == {"rollout": usage}


def test_calls_are_priced_by_role_unless_the_provider_names_the_cost(ask: Any) -> None:
    tariff = Tariff("configuration", "", lambda usage: usage.tokens * 0.5)
    meter = Meter()
    for cost, expected in ((None, 5.0), (0.0, 5.0), (0.25, 0.25)):
        said = ChatReply("ok", "stop", "m", Usage(calls=1, prompt_tokens=10, cost_usd=cost))
        client = MeteredClient(Slow(said), meter, {"target": tariff})
        assert asyncio.run(client.complete(ask())).usage.cost_usd == expected
    assert meter.accounts()[Account("target", "rollout")].cost_usd == 10.25


def test_the_cost_of_a_model_without_a_price_is_unknown_never_zero(ask: Any) -> None:
    unknown = Tariff("unknown", "", lambda usage: None)
    meter, said = Meter(), ChatReply("ok", "stop", "m", Usage(calls=1, prompt_tokens=10))
    client = MeteredClient(Slow(said), meter, {"target": unknown})
    assert asyncio.run(client.complete(ask())).usage.cost_usd is None
    assert meter.total().cost_usd is None
