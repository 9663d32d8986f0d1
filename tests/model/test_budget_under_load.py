"""A budget against 64 calls at once, over real connections to a server that takes its time."""

import asyncio
import threading
from typing import Any

import pytest

from skillopt_ci.config.config import Limits
from skillopt_ci.config.models import Models
from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.build import open_router
from skillopt_ci.model.types import ChatRequest, Usage

AT_ONCE = 64
#: What the server says of each call, and what that costs.
PER_CALL = Usage(calls=1, prompt_tokens=10, completion_tokens=5)
PRICE = {"input": 1000.0, "output": 2000.0}
DOLLARS = 0.02


async def flood(models: Models, meter: Meter, requests: list[ChatRequest]) -> list[Any]:
    async with open_router(models, {}) as router:
        client = router.for_work("s", meter)
        asked = (client.complete(request) for request in requests)
        return await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        (Limits(calls=20), 20),
        # 15 tokens a call: the 14th is the one that reaches 200
        (Limits(tokens=200), 14),
        (Limits(cost_usd=0.25), 13),
    ],
)
def test_a_budget_is_held_within_one_call(server, served, ask, limits, most):
    role = served(max_concurrency=AT_ONCE, price=PRICE, retries=0)
    models, meter = Models(target=role, optimizer=role), Meter(step=limits)
    asked = [ask(f"question {number}") for number in range(AT_ONCE)]
    outcomes = asyncio.run(flood(models, meter, asked))
    stopped = [one for one in outcomes if isinstance(one, BudgetExhausted)]
    answered = [one for one in outcomes if not isinstance(one, BaseException)]
    assert len(answered) == len(server.bodies) == meter.total().calls == most
    assert len(stopped) == AT_ONCE - most
    used, spent = meter.total(), PER_CALL
    assert used.calls <= (limits.calls or used.calls)
    assert used.tokens < (limits.tokens or used.tokens + 1) + spent.tokens
    assert (used.cost_usd or 0) < (limits.cost_usd or 1_000) + DOLLARS


def test_many_calls_run_at_once_while_there_is_room(server, served, ask):
    role = served(max_concurrency=AT_ONCE, retries=0)
    models = Models(target=role, optimizer=role)
    meter = Meter(step=Limits(tokens=1_000_000, calls=AT_ONCE, minutes=10))
    together = threading.Barrier(AT_ONCE)
    for _ in range(AT_ONCE):
        server.will(gate=together)
    outcomes = asyncio.run(flood(models, meter, [ask(f"q {n}") for n in range(AT_ONCE)]))
    assert not [one for one in outcomes if isinstance(one, BaseException)]
    assert not together.broken
