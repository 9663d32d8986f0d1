import asyncio
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.config import Limits
from skillopt_ci.config.models import Models
from skillopt_ci.errors import BudgetExhausted, ModelSetupError
from skillopt_ci.messages import Image, Message
from skillopt_ci.model.budget import Expectation, Meter, tariffs
from skillopt_ci.model.types import Account, ChatRequest, Role, Usage, by_stage

CALL = Usage(calls=1, prompt_tokens=80, completion_tokens=20, cost_usd=0.5)


def models(**target: Any) -> Models:
    price = {"input": 1, "output": 1}
    role = {"provider": "openai", "model": "in-no-table", "price": price}
    return Models.model_validate({"target": {**role, **target}, "optimizer": role})


ROLLOUT = Account("target", "rollout")

ONE = Usage(calls=1)


def reserve(meter: Meter, expected: Usage = ONE) -> None:
    asyncio.run(meter.reserve(expected))


def test_usage_is_booked_by_role_and_stage():
    meter, judged = Meter(), Account("judge", "rollout")
    for account in (ROLLOUT, Account("optimizer", "analyst"), judged, ROLLOUT):
        meter.charge(account, CALL)
    assert list(meter.accounts()) == [judged, ("optimizer", "analyst"), ROLLOUT]
    assert meter.accounts()[ROLLOUT] == CALL + CALL
    assert by_stage(meter.accounts()) == {"analyst": CALL, "rollout": CALL + CALL + CALL}
    assert list(by_stage(meter.accounts())) == ["analyst", "rollout"]
    assert meter.total() == CALL + CALL + CALL + CALL


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        (Limits(calls=2), "budget.step.calls"),
        (Limits(tokens=200), "budget.step.tokens"),
        (Limits(cost_usd=1.0), "budget.step.cost_usd"),
    ],
)
def test_a_spent_limit_stops_the_next_call(limits, key):
    meter = Meter(step=limits)
    meter.charge(ROLLOUT, replace(CALL, cost_usd=None) if limits.cost_usd else Usage())
    meter.charge(ROLLOUT, CALL)
    reserve(meter, CALL)
    meter.charge(ROLLOUT, CALL)
    meter.release(CALL)
    with pytest.raises(BudgetExhausted, match=rf"^{key} is used up: \d+ of \d+"):
        reserve(meter, CALL)


@pytest.mark.parametrize(
    "limits", [Limits(calls=2), Limits(tokens=250), Limits(cost_usd=1.2), Limits(tokens=200)]
)
def test_a_call_for_which_there_may_be_no_room_waits_for_those_under_way(limits):
    async def work() -> list[str]:
        meter, told = Meter(step=limits), list[str]()
        await meter.reserve(CALL)
        await meter.reserve(CALL)
        third = asyncio.create_task(meter.reserve(CALL))
        await asyncio.sleep(0)
        told.append("waits" if not third.done() else "went")
        meter.release(CALL)
        await third
        told.append("goes")
        return told

    assert asyncio.run(work()) == ["waits", "goes"]


def test_calls_under_way_are_never_broken_off_by_a_limit():
    async def work() -> None:
        meter = Meter(step=Limits(calls=1))
        await meter.reserve()
        second = asyncio.create_task(meter.reserve())
        await asyncio.sleep(0)
        assert not second.done()
        meter.charge(ROLLOUT, CALL)
        meter.release()
        with pytest.raises(BudgetExhausted):
            await second

    asyncio.run(work())


def test_a_call_that_is_alone_goes_as_long_as_a_limit_is_not_used_up():
    meter = Meter(step=Limits(tokens=101))
    meter.charge(ROLLOUT, CALL)
    reserve(meter, Usage(calls=1, prompt_tokens=2_000_000))
    meter.charge(ROLLOUT, Usage(calls=1, prompt_tokens=2_000_000))
    meter.release(Usage(calls=1, prompt_tokens=2_000_000))
    with pytest.raises(BudgetExhausted, match=r"tokens is used up: 2,000,\d+ of 101"):
        reserve(meter)


def test_what_the_run_spent_before_counts_for_the_run_only():
    earlier = Usage(calls=9, cost_usd=0.0)
    reserve(Meter(step=Limits(calls=1), spent=earlier))
    with pytest.raises(BudgetExhausted, match=r"budget\.run\.calls is used up: 9 of 9"):
        reserve(Meter(run=Limits(calls=9), spent=earlier))


def test_minutes_of_a_step_count_from_its_own_start():
    seconds = [100.0]
    meter = Meter(step=Limits(minutes=1), clock=lambda: seconds[0])
    seconds[0] = 159.9
    reserve(meter)
    meter.release()
    for seconds[0], used in ((160.0, "1"), (160.0123, r"1\.0002")):
        with pytest.raises(BudgetExhausted, match=rf"step\.minutes is used up: {used} of 1"):
            reserve(meter)


def test_minutes_of_a_run_count_from_its_start_and_zero_calls_are_none():
    meter = Meter(run=Limits(minutes=2), clock=lambda: 130.0, command_started=10.0)
    with pytest.raises(BudgetExhausted, match=r"budget\.run\.minutes"):
        reserve(meter)
    with pytest.raises(BudgetExhausted):
        reserve(Meter(step=Limits(calls=0)))


@pytest.mark.parametrize(
    ("limits", "target", "refused"),
    [
        (Limits(cost_usd=1), {}, False),
        (Limits(cost_usd=1), {"price": None}, True),
        (Limits(tokens=1), {"price": None}, False),
        (Limits(cost_usd=1), {"provider": "simulated", "price": None}, False),
        (Limits(cost_usd=1), {"model": "gpt-5.5", "price": None}, False),
    ],
)
def test_a_cost_limit_needs_every_price_that_is_not_known(limits, target, refused):
    needs = pytest.raises(ModelSetupError, match=r"step\.cost_usd needs model\.target\.price")
    with needs if refused else nullcontext():
        Meter(step=limits).require_prices(tariffs(models(**target).roles))


def test_a_run_of_unknown_cost_cannot_be_held_to_one():
    meter = Meter(run=Limits(cost_usd=1), spent=Usage(calls=1, cost_usd=None))
    with pytest.raises(ModelSetupError, match="cost of earlier steps is unknown"):
        meter.require_prices(tariffs(models().roles))
    role = {"provider": "openai", "model": "gpt-5.5"}
    unknown = {"provider": "openai", "model": "in-no-table"}
    found = Models.model_validate({"target": role, "optimizer": unknown})
    with pytest.raises(ModelSetupError, match=r"needs model\.optimizer\.price"):
        Meter(run=Limits(cost_usd=1)).require_prices(tariffs(found.roles))


def test_what_a_piece_of_work_is_charged_is_told_apart():
    meter = Meter()
    meter.charge(ROLLOUT, CALL)
    with meter.shared() as share:
        assert share.charged == Usage()
        meter.charge(ROLLOUT, CALL)
    meter.charge(ROLLOUT, CALL)
    assert share.charged == CALL
    assert meter.total() == CALL + CALL + CALL


def test_a_piece_of_work_knows_whether_the_target_was_asked_at_all():
    meter = Meter()
    with meter.shared() as share:
        meter.charge(Account(Role.JUDGE, "judge"), CALL)
        meter.reuse(Role.JUDGE)
        assert not share.called_target
        with meter.shared() as part:
            meter.reuse(Role.TARGET)
    assert (part.called_target, share.called_target, meter.total().calls) == (True, True, 1)


def test_work_at_the_same_time_has_its_own_share():
    meter = Meter()

    async def work(calls: int) -> int:
        with meter.shared() as share:
            for _ in range(calls):
                await asyncio.sleep(0)
                meter.charge(ROLLOUT, CALL)
        return share.charged.calls

    async def both() -> list[int]:
        return await asyncio.gather(work(3), work(5))

    assert asyncio.run(both()) == [3, 5]


def test_what_is_lent_is_nobody_elses_until_it_comes_back():
    meter = Meter(step=Limits(calls=8, tokens=800), run=Limits(calls=6, cost_usd=3.0))
    with meter.lent(2) as first:
        assert first == Limits(calls=3, tokens=400, cost_usd=1.5)
        with meter.lent(2) as second:
            assert second == Limits(calls=1, tokens=200, cost_usd=0.75)
    with meter.lent(1) as again:
        assert again == Limits(calls=6, tokens=800, cost_usd=3.0)
    with Meter().lent(4) as share:
        assert share == Limits()


def test_calls_are_lent_until_there_are_none():
    meter = Meter(step=Limits(calls=2))
    with meter.lent(16) as first, meter.lent(16) as second:
        assert (first.calls, second.calls) == (1, 1)
        with pytest.raises(BudgetExhausted), meter.lent(16):
            pass
        with pytest.raises(BudgetExhausted):
            asyncio.run(meter.reserve())


@given(limit=st.integers(1, 500), parts=st.integers(1, 40), borrowers=st.integers(1, 60))
def test_loans_together_never_exceed_what_is_left(limit, parts, borrowers):
    meter, lent = Meter(run=Limits(calls=limit)), 0
    with ExitStack() as loans, suppress(BudgetExhausted):
        for _ in range(borrowers):
            lent += loans.enter_context(meter.lent(parts)).calls or 0
    assert 0 < lent <= limit


def request(text: str = "x" * 300, stage: str = "rollout", **changes: Any) -> ChatRequest:
    return ChatRequest(Role.TARGET, stage, (Message("user", text),), **changes)


def test_before_any_answer_the_limit_or_a_long_answer_is_expected():
    forecast = Expectation()
    assert forecast.expect(request()).completion_tokens == 4096
    assert forecast.expect(request(max_output_tokens=50)).completion_tokens == 50
    assert 100 <= forecast.expect(request()).prompt_tokens <= 150
    picture = Message("user", "x", (Image("image/png", "AAAA"),))
    shown = ChatRequest(Role.TARGET, "rollout", (picture,))
    assert Expectation().expect(shown).prompt_tokens > 1_000


def test_afterwards_the_longest_answer_of_the_stage_is():
    forecast = Expectation()
    for length in (10, 30, 20):
        forecast.learn(request(), Usage(1, 100, length))
    forecast.learn(request(), Usage(2, 200, 60))  # one of them was of no use
    assert forecast.expect(request()).completion_tokens == 30
    assert forecast.expect(request(stage="test")).completion_tokens == 4096


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 3_000)), min_size=1))
def test_no_call_like_an_earlier_one_is_underestimated(seen):
    forecast, prompt = Expectation(), request()
    for tokens, answer in seen:
        forecast.learn(prompt, Usage(1, tokens, answer))
    expected = forecast.expect(prompt)
    for tokens, answer in seen:
        assert expected.tokens >= tokens + answer
