from typing import Any

import pytest
from genai_prices import Usage as Counted
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.config.models import ModelRole, Price
from skillopt_ci.model.budget import cost_usd, tariff_of, tariffs
from skillopt_ci.model.types import Usage

CALL = Usage(1, 1000, 100, cached_tokens=400, cache_write_tokens=200)


def tariff(**role: Any) -> Any:
    return tariff_of(ModelRole.model_validate(role))


def test_the_configured_price_goes_before_the_table():
    price = {"input": 10, "output": 100, "cached_input": 1}
    found = tariff(provider="openai", model="gpt-5.5", price=price)
    assert (found.source, found.known) == ("configuration", True)
    assert found.cost_usd(CALL) == pytest.approx((600 * 10 + 400 * 1 + 100 * 100) / 1e6)


@pytest.mark.parametrize(
    ("provider", "model", "more", "priced_by"),
    [
        ("openai", "gpt-5.5", {}, "openai"),
        ("anthropic", "claude-opus-4-6", {}, "anthropic"),
        ("gemini", "gemini-3.5-flash", {}, "google"),
        ("azure", "gpt-4o", {"base_url": "https://gateway.test"}, "azure"),
        ("anthropic", "claude-opus-4-6", {"base_url": "https://gateway.test"}, "anthropic"),
        ("openai", "claude-opus-4-6", {"base_url": "https://api.anthropic.com/v1"}, "anthropic"),
    ],
)
def test_a_well_known_model_costs_what_the_table_says(provider, model, more, priced_by):
    found = tariff(provider=provider, model=model, **more)
    counted = Counted(
        input_tokens=1000, cache_read_tokens=400, cache_write_tokens=200, output_tokens=100
    )
    expected = calc_price(counted, model, provider_id=priced_by).total_price
    assert found.source == "table"
    assert found.text.startswith(f"{priced_by}/")
    assert found.cost_usd(CALL) == pytest.approx(float(expected))
    assert found.cost_usd(CALL) < found.cost_usd(Usage(1, 1000, 100))


@pytest.mark.parametrize(
    "role",
    [
        {"provider": "openai", "model": "no-such-model"},
        {"provider": "openai", "model": "gpt-5.5", "base_url": "http://localhost:11434/v1"},
        {"provider": "command", "model": "gpt-5.5", "command": ["agent"]},
    ],
)
def test_a_price_that_nobody_knows_is_unknown_and_not_guessed_by_the_name(role):
    found = tariff(**role)
    assert (found.source, found.known, found.cost_usd(CALL)) == ("unknown", False, None)


def test_simulated_models_cost_nothing_and_the_judge_costs_what_the_optimizer_does():
    simulated = ModelRole(provider="simulated", model="gpt-5.5")
    priced = ModelRole(provider="openai", model="m", price=Price(input=1, output=1))
    found = tariffs({"target": simulated, "optimizer": priced})
    sources = [found[name].source for name in ("target", "optimizer", "judge")]
    assert sources == ["simulated", "configuration", "configuration"]
    assert (found["target"].cost_usd(CALL), "simulated" in found["target"].text) == (0.0, True)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**8), st.integers(0, 10**8))
def test_cost_is_never_negative_and_never_above_the_uncached(prompt, completion, cached, written):
    price = Price(input=3, output=5, cached_input=1)
    usage = Usage(1, prompt, completion, cached, cache_write_tokens=written)
    cost, dearest = cost_usd(usage, price), cost_usd(Usage(1, prompt, completion), price)
    assert 0 <= cost <= dearest
