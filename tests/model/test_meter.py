from typing import Any

import pytest

from skillopt_ci.errors import BudgetExhausted, ModelSetupError
from skillopt_ci.model.client import Usage
from skillopt_ci.model.meter import Meter
from skillopt_ci.settings.config import Limits
from skillopt_ci.settings.model import Models

CALL = Usage(calls=1, prompt_tokens=80, completion_tokens=20, cost_usd=0.5)


def models(**target: Any) -> Models:
    role = {"provider": "openai", "model": "m", "price": {"input": 1, "output": 1}}
    return Models.model_validate({"target": {**role, **target}, "optimizer": role})


def test_usage_is_booked_by_stage() -> None:
    meter = Meter()
    for stage in ("rollout", "analyst", "rollout"):
        meter.charge(stage, CALL)
    assert dict(meter.usage_by_stage()) == {"rollout": CALL + CALL, "analyst": CALL}
    assert list(meter.usage_by_stage()) == ["analyst", "rollout"]
    assert meter.total() == CALL + CALL + CALL


def test_reuse_costs_nothing_and_is_counted() -> None:
    meter = Meter()
    meter.reuse()
    assert (meter.reused_calls, meter.total()) == (1, Usage())


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        (Limits(calls=2), "budget.step.calls"),
        (Limits(tokens=200), "budget.step.tokens"),
        (Limits(cost_usd=1.0), "budget.step.cost_usd"),
    ],
)
def test_a_spent_limit_stops_the_next_call(limits: Limits, key: str) -> None:
    meter = Meter(step=limits)
    meter.charge("rollout", CALL)
    meter.reserve()
    meter.release()
    meter.charge("rollout", CALL)
    with pytest.raises(BudgetExhausted, match=rf"^{key} is used up: \d+ of \d+"):
        meter.reserve()


def test_calls_under_way_count_in_full() -> None:
    meter = Meter(step=Limits(calls=2))
    meter.reserve()
    meter.reserve()
    with pytest.raises(BudgetExhausted, match=r"2 of 2 \(with 2 calls under way\)"):
        meter.reserve()
    meter.release()
    meter.reserve()


def test_tokens_of_calls_under_way_are_expected_to_be_average() -> None:
    meter = Meter(step=Limits(tokens=300))
    meter.charge("rollout", CALL)
    meter.reserve()
    meter.reserve()
    with pytest.raises(BudgetExhausted, match=r"budget\.step\.tokens"):
        meter.reserve()


def test_what_the_run_spent_before_counts_for_the_run_only() -> None:
    earlier = Usage(calls=9, cost_usd=0.0)
    Meter(step=Limits(calls=1), spent=earlier).reserve()
    with pytest.raises(BudgetExhausted, match=r"budget\.run\.calls is used up: 9 of 9"):
        Meter(run=Limits(calls=9), spent=earlier).reserve()


def test_minutes_of_a_step_count_from_its_own_start() -> None:
    seconds = [100.0]
    meter = Meter(step=Limits(minutes=1), clock=lambda: seconds[0])
    seconds[0] = 159.9
    meter.reserve()
    seconds[0] = 160.0
    with pytest.raises(BudgetExhausted, match=r"budget\.step\.minutes is used up: 1 of 1"):
        meter.reserve()


def test_minutes_of_a_run_count_from_the_command_s_start() -> None:
    meter = Meter(run=Limits(minutes=2), clock=lambda: 130.0, command_started=10.0)
    with pytest.raises(BudgetExhausted, match=r"budget\.run\.minutes"):
        meter.reserve()


def test_a_limit_of_zero_allows_no_call() -> None:
    with pytest.raises(BudgetExhausted):
        Meter(step=Limits(calls=0)).reserve()


def test_a_cost_limit_needs_every_price() -> None:
    meter = Meter(step=Limits(cost_usd=1))
    meter.require_prices(models())
    with pytest.raises(ModelSetupError, match=r"budget\.step\.cost_usd needs model\.target\.price"):
        meter.require_prices(models(price=None))


def test_prices_are_not_needed_without_a_cost_limit_or_for_simulated_models() -> None:
    Meter(step=Limits(tokens=1)).require_prices(models(price=None))
    simulated = models(provider="simulated", price=None)
    Meter(step=Limits(cost_usd=1)).require_prices(simulated)


def test_a_run_of_unknown_cost_cannot_be_held_to_one() -> None:
    meter = Meter(run=Limits(cost_usd=1), spent=Usage(calls=1, cost_usd=None))
    with pytest.raises(ModelSetupError, match="no known cost"):
        meter.require_prices(models())
