from typing import Any

import pytest

from skillopt_ci.config.config import Config
from skillopt_ci.estimate.estimate import budgeted
from skillopt_ci.messages import Message
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.tasks.task import Splits, Task

TASKS = tuple(Task(f"t{number}", (Message("user", "?" * 4000),)) for number in range(100))
PRICED = {"provider": "openai", "model": "m", "price": {"input": 1, "output": 2}}


def bought(model: Any = PRICED, skill: str = "", **run: Any) -> int | None:
    more = {"rollout": {"solver": {"type": "agent"}}} if run.pop("agent", False) else {}
    config = Config.model_validate(
        {
            "run": "r",
            "skill": "SKILL.md",
            "tasks": {"train": "a", "selection": "b"},
            "model": {"target": model, "optimizer": model},
            "scorer": run.pop("scorer", {"type": "exact"}),
            "budget": {"run": run},
            **more,
        }
    )
    found = budgeted(config, Splits(TASKS, TASKS, ()), Prompts.load(), skill)
    assert found.model_copy(update={"budget": config.budget}) == config
    return found.budget.run.calls


def test_dollars_and_tokens_buy_calls_by_their_sizes_and_prices():
    calls = bought(cost_usd=1) or 0
    assert bought(cost_usd=2) == pytest.approx(2 * calls, abs=1)
    # an attempt has about 1,050 tokens and an answer of 300; a question shows up to 40 attempts
    assert 200 < calls < 1_000_000 / (1050 + 2 * 300)
    assert (bought(cost_usd=1, skill="#" * 40_000) or 0) < calls / 3
    dear = {**PRICED, "price": {"input": 10, "output": 20}}
    assert bought(dear, cost_usd=1) == pytest.approx(calls / 10, abs=1)
    assert 300_000 / 4000 < (bought(tokens=300_000) or 0) < 300_000 / 1350
    rubric = {"type": "rubric", "rubric": "It is polite."}
    judged = bought(cost_usd=1, scorer=rubric) or 0
    assert calls < judged < 2 * calls  # twice the calls, each for less


def test_the_limit_that_ends_first_counts():
    assert bought(calls=9, cost_usd=1) == 9
    assert bought(calls=999_999, cost_usd=1) == bought(cost_usd=1)
    assert bought(tokens=9_000, cost_usd=1) == bought(tokens=9_000)


def test_what_cannot_be_priced_or_counted_buys_no_number():
    assert bought(calls=9) == 9
    assert bought(minutes=9) is None
    assert bought({"provider": "openai", "model": "unheard-of"}, cost_usd=1) is None
    assert bought({"provider": "simulated", "model": "s"}, cost_usd=1) is None
    assert bought(cost_usd=1, agent=True) is None
