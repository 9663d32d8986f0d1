"""Calls held to budgets, priced, without secrets and within the optimizer's slots."""

import asyncio
import threading
from typing import Any

import pytest

from skillopt_ci.aio import Slots, map_ordered
from skillopt_ci.config.config import Limits
from skillopt_ci.config.models import Models
from skillopt_ci.errors import BudgetExhausted
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model import types
from skillopt_ci.model.budget import BudgetedClient, Meter, Tariff
from skillopt_ci.model.build import open_router
from skillopt_ci.model.retry import RetryingClient, Throttle, TransientFailure
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, Role, Usage, by_stage
from skillopt_ci.redaction import HIDDEN, Redactor

SECRET = "sk-planted-0123456789"
CALL = ToolCall("1", "run", f'{{"key": "{SECRET}"}}')


def budgeted(inner: Any, meter: Meter, tariff: Tariff | None = None, **more: Any) -> BudgetedClient:
    tariffs = {} if tariff is None else {"target": tariff}
    return BudgetedClient(dict.fromkeys(Role, inner), meter, tariffs, **more)


class Slow:
    """Answers after others had their turn, or fails."""

    def __init__(self, answer: Any, failing: int = 0) -> None:
        self.calls = 0
        self.answer = answer
        self.failing = failing

    async def complete(self, request: Any) -> Any:
        self.calls += 1
        if self.calls <= self.failing:
            raise types.ModelUnavailable("down")
        for _ in range(3):
            await asyncio.sleep(0)
        return self.answer


def test_a_call_that_fails_or_is_cancelled_gives_its_reservation_back(ask, scripted, reply):
    inner, meter = Slow(reply(), failing=5), Meter(step=Limits(calls=3))
    client = budgeted(inner, meter)
    for _ in range(5):
        with pytest.raises(types.ModelUnavailable):
            asyncio.run(client.complete(ask()))
    assert asyncio.run(client.complete(ask())).text == "ok"
    assert meter.total().calls == 1
    meter = Meter(step=Limits(calls=2))
    inner = scripted(TransientFailure("no", usage=reply("").usage), asyncio.CancelledError())
    client = budgeted(RetryingClient(inner, 3, Throttle(1), draw=lambda: 0.0), meter)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(client.complete(ask()))
    assert by_stage(meter.accounts()) == {"rollout": reply("").usage}
    asyncio.run(meter.reserve())


def test_a_refusal_is_booked_with_what_it_consumed(ask, scripted, reply):
    meter, usage = Meter(), Usage(calls=1, prompt_tokens=7)
    with pytest.raises(ModelRefusal):
        asyncio.run(budgeted(scripted(ModelRefusal("no", usage=usage)), meter).complete(ask()))
    assert by_stage(meter.accounts()) == {"rollout": usage}
    # one that cost nothing says nothing of the next answer
    meter, waited = Meter(step=Limits(tokens=4_200)), []
    client = budgeted(scripted(ModelRefusal("no"), reply()), meter)

    async def work() -> None:
        with pytest.raises(ModelRefusal):
            await client.complete(ask())
        await meter.reserve(Usage(1, 1_000))  # another call is under way
        answered = asyncio.create_task(client.complete(ask()))
        await asyncio.sleep(0)
        waited.append(not answered.done())
        meter.release(Usage(1, 1_000))
        await answered

    asyncio.run(work())
    assert waited == [True]


def test_calls_are_priced_by_role_unless_the_provider_names_the_cost(ask):
    tariff, meter = Tariff("configuration", "", lambda usage: usage.tokens * 0.5), Meter()
    for cost, expected in ((None, 5.0), (0.0, 5.0), (0.25, 0.25)):
        said = ChatReply("ok", "stop", "m", Usage(calls=1, prompt_tokens=10, cost_usd=cost))
        client = budgeted(Slow(said), meter, tariff)
        assert asyncio.run(client.complete(ask())).usage.cost_usd == expected
    assert meter.accounts()[types.Account("target", "rollout")].cost_usd == 10.25
    unknown = Tariff("unknown", "", lambda usage: None)
    meter, said = Meter(), ChatReply("ok", "stop", "m", Usage(calls=1, prompt_tokens=10))
    assert asyncio.run(budgeted(Slow(said), meter, unknown).complete(ask())).usage.cost_usd is None
    assert meter.total().cost_usd is None
    # what it charged is expected of later calls, so that one call at most exceeds a limit
    meter, said = Meter(run=Limits(cost_usd=10.5)), ChatReply("", "", "m", Usage(1, 10, cost_usd=1))
    client = budgeted(Slow(said), meter, Tariff("table", "", lambda _: 0.001))
    asyncio.run(client.complete(ask()))
    with pytest.raises(BudgetExhausted):
        asyncio.run(map_ordered(client.complete, [ask()] * 40, limit=8))
    assert meter.total().cost_usd == 11
    said = ChatReply("", "stop", "m", Usage(calls=1))
    assert asyncio.run(budgeted(Slow(said), Meter(), unknown).complete(ask())).usage.cost_usd == 0.0


def redacted(inner: Any, request: ChatRequest) -> ChatReply:
    return asyncio.run(budgeted(inner, Meter(), redact=Redactor([SECRET])).complete(request))


def test_prompts_answers_and_errors_carry_no_secret(ask, scripted, reply):
    said = ChatReply(f"a {SECRET}", "stop", "m", Usage(1), f"trace {SECRET}", (CALL,))
    inner = scripted(said)
    messages = (Message("user", f"use {SECRET}"), Message("assistant", "", tool_calls=(CALL,)))
    heard = redacted(inner, ChatRequest(Role.TARGET, "rollout", messages))
    assert (heard.text, heard.trace) == (f"a {HIDDEN}", f"trace {HIDDEN}")
    assert heard.tool_calls[0].arguments == f'{{"key": "{HIDDEN}"}}'
    (asked,) = inner.asked
    assert SECRET not in str(asked)
    assert asked.messages[0].content == f"use {HIDDEN}"
    refusal = ModelRefusal(f"no {SECRET}", hint=f"try {SECRET}", usage=Usage(1, 7))
    with pytest.raises(ModelRefusal) as caught:
        redacted(scripted(refusal), ask())
    assert str(caught.value) == f"no {HIDDEN}\ntry {HIDDEN}"
    assert SECRET not in repr(caught.value)
    assert caught.value.usage == Usage(1, 7)
    inner = scripted(reply("plain"))
    assert redacted(inner, ask()) == reply("plain")
    assert inner.asked == [ask()]


class Counting:
    """Answers after some turns of the loop and counts the requests under way by role."""

    def __init__(self) -> None:
        self.under_way = dict.fromkeys(Role, 0)
        self.most = dict.fromkeys(Role, 0)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.under_way[request.role] += 1
        self.most[request.role] = max(self.most[request.role], self.under_way[request.role])
        for _ in range(3):
            await asyncio.sleep(0)
        self.under_way[request.role] -= 1
        return ChatReply("", "stop", "m", Usage())


def test_questions_of_all_stages_share_the_places_and_attempts_need_none(ask):
    counting = Counting()
    client = budgeted(counting, Meter(), questions=Slots(2))
    requests = [ask(role=role) for role in (Role.OPTIMIZER, Role.TARGET, Role.JUDGE) * 5]
    asyncio.run(map_ordered(client.complete, requests, limit=len(requests)))
    assert counting.most == {Role.OPTIMIZER: 2, Role.TARGET: 5, Role.JUDGE: 5}


# A budget against 64 calls at once, over real connections to a server that takes its time.

AT_ONCE = 64
#: What the server says of each call, and what that costs.
PER_CALL = Usage(calls=1, prompt_tokens=10, completion_tokens=5)
DOLLARS = 0.02


async def flood(models: Models, meter: Meter, requests: list[ChatRequest]) -> list[Any]:
    async with open_router(models.roles, {}) as router:
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
    role = served(max_concurrency=AT_ONCE, price={"input": 1000.0, "output": 2000.0}, retries=0)
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
