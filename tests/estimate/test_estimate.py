from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from skillopt_ci.config.config import Config
from skillopt_ci.estimate.calls import SELECTION, SLOW_UPDATE
from skillopt_ci.estimate.estimate import _assumed_sizes, _sizes, budgeted
from skillopt_ci.messages import Message
from skillopt_ci.model.types import CHARACTERS_PER_TOKEN, Usage
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.tasks.task import Splits, Task

TASKS = tuple(Task(f"t{number}", (Message("user", "?" * 4000),)) for number in range(100))
PRICED = {"provider": "openai", "model": "m", "price": {"input": 1, "output": 2}}


def planned_by(target: Any = PRICED, optimizer: Any = None, skill: str = "", **run: Any) -> Config:
    tests = run.pop("tests", ())
    more = {"rollout": {"solver": {"type": "agent"}}} if run.pop("agent", False) else {}
    config = Config.model_validate(
        {
            "run": "r",
            "skill": "SKILL.md",
            "tasks": {"train": "a", "selection": "b"},
            "model": {"target": target, "optimizer": optimizer or target},
            "scorer": run.pop("scorer", {"type": "exact"}),
            "gradient": run.pop("gradient", {}),
            "budget": {"run": run},
            **more,
        }
    )
    return budgeted(config, Splits(TASKS, TASKS, tests), Prompts.load(), skill)


def bought(*given: Any, **more: Any) -> int | None:
    return planned_by(*given, **more).budget.run.calls


def test_dollars_and_tokens_buy_calls_by_their_sizes_and_prices():
    calls = bought(cost_usd=1) or 0
    assert bought(cost_usd=2) == pytest.approx(2 * calls, abs=1)
    # an attempt has about 1,050 tokens and an answer of 300; a question shows up to 40 attempts
    assert 200 < calls < 1_000_000 / (1050 + 2 * 300)
    assert (bought(cost_usd=1, skill="#" * 40_000) or 0) < calls / 3
    dear = {**PRICED, "price": {"input": 10, "output": 20}}
    assert bought(dear, cost_usd=1) == pytest.approx(calls / 10, abs=1)
    assert 300_000 / 4000 < (many := bought(tokens=300_000) or 0) < 300_000 / 1350
    assert (bought({**PRICED, "max_output_tokens": 30}, tokens=300_000) or 0) > 1.1 * many
    # the tests of two skills ask the dear optimizer nothing: each costs 0.00166 or so
    tested = bought(PRICED, dear, cost_usd=1, tests=TASKS[:50]) or 0
    assert tested - 100 == pytest.approx(bought(PRICED, dear, cost_usd=1 - 0.166), abs=1)
    rubric = {"type": "rubric", "rubric": "It is polite."}
    assert calls / 2 < (bought(cost_usd=1, scorer=rubric) or 0) < 2 * calls


def test_a_prompt_grows_with_the_skill_as_often_as_it_shows_it():
    config = planned_by()

    def prompts(tokens: int) -> Counter[str]:
        sizes = _assumed_sizes(config, TASKS, Prompts.load(), "#" * tokens * CHARACTERS_PER_TOKEN)
        return Counter({account.stage: size.usage.prompt_tokens for account, size in sizes.items()})

    before, after = prompts(1000), prompts(1001)
    grown = {stage: after[stage] - before[stage] for stage in after}
    # an epoch's end compares two skills on the same samples
    ends = {"slow_update": 2, "meta_skill": 2}
    assert grown == {**dict.fromkeys(after, 1), "judge": 0, **ends}
    assert min(after[stage] for stage in ends) > 2000 * (config.optimizer.slow_update_samples + 1)


def test_an_epochs_end_compares_all_turns_of_an_agent_without_their_reasoning():
    used = Usage(30, 30_000, 3_600, reasoning_tokens=600)
    checkout: Any = SimpleNamespace(state=SimpleNamespace(accounts={SELECTION: used}), skill="")
    run: Any = SimpleNamespace(config=planned_by(), splits=Splits(TASKS, TASKS, ()))
    run.selection, run.prompts = TASKS, Prompts.load()
    cached, *found = (_sizes(run, checkout, turns)[SLOW_UPDATE].usage for turns in (0.1, 1, 9))
    samples = 2 * run.config.optimizer.slow_update_samples
    assert (found[1].prompt_tokens - cached.prompt_tokens, cached) == (samples * 800, found[0])


def test_the_limit_that_ends_first_counts_if_it_can_be_priced_and_counted():
    assert bought(calls=9, cost_usd=1) == bought(calls=9) == 9
    assert bought(calls=999_999, cost_usd=1) == bought(cost_usd=1)
    assert bought(tokens=9_000, cost_usd=1) == bought(tokens=9_000)
    assert bought(minutes=9) is None
    assert bought({"provider": "openai", "model": "unheard-of"}, cost_usd=1) is None
    assert bought({"provider": "simulated", "model": "s"}, cost_usd=1) is None
    assert bought(cost_usd=1, agent=True) is None


def test_one_analyst_is_enough_where_a_question_costs_more_than_twenty_attempts():
    cheap = {**PRICED, "price": {"input": 0.5, "output": 1}}
    assert planned_by(cost_usd=1).gradient.model_fields_set == {"analysts"}  # 33 attempts
    assert planned_by(PRICED, cheap, cost_usd=1).gradient.model_fields_set == set()
    assert planned_by(calls=9, cost_usd=1).gradient.model_fields_set == set()
    assert planned_by(cost_usd=1, gradient={"analysts": 2}).gradient.analysts == 2
