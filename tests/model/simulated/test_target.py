import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo import models
from skillopt_ci.demo.models import (
    LEDGER_CONVENTIONS,
    STEADY,
    Convention,
    Dice,
    Temperament,
    generate_notes,
)
from skillopt_ci.messages import Message

FAULTLESS = replace(STEADY, slip=0.0, torn=1.0)
HOUSE_RULES = "\n".join(f"- {convention.rules[0]}" for convention in LEDGER_CONVENTIONS)
TASKS = generate_notes(11, 60)


def _answer(skill: str, prompt: str, temperament: Temperament = FAULTLESS, seed: int = 0) -> str:
    messages = (Message("system", skill), Message("user", prompt))
    reply = models.answer(messages, Dice(seed, prompt), temperament)
    found = re.search(r"<answer>(.*)</answer>$", reply)
    assert found is not None
    return found[1]


def _score(skill: str, temperament: Temperament = FAULTLESS) -> float:
    right = [_answer(skill, task.prompt, temperament) == task.reference for task in TASKS]
    return sum(right) / len(right)


def test_a_skill_that_states_the_house_style_solves_everything() -> None:
    assert _score(HOUSE_RULES) == 1


def test_without_a_skill_nothing_is_solved() -> None:
    assert _score("") == 0


@pytest.mark.parametrize("convention", LEDGER_CONVENTIONS, ids=lambda c: c.name)
def test_a_rule_that_is_missing_or_contradicted_costs_tasks(convention: Convention) -> None:
    assert _score(HOUSE_RULES.replace(convention.rules[0], "")) < 1
    assert _score(f"{HOUSE_RULES}\n- {convention.harmful}") < 1


def test_slips_happen_at_about_their_rate() -> None:
    assert 0.8 < _score(HOUSE_RULES, STEADY) < 1


def test_a_bloated_skill_makes_more_slips() -> None:
    padding = "and every note matters to somebody " * 200
    easily_lost = replace(FAULTLESS, bloat_slip=0.1)
    assert _score(HOUSE_RULES, easily_lost) == 1
    assert _score(f"{HOUSE_RULES}\n{padding}", easily_lost) < 0.9


def test_contradictions_make_it_slip_elsewhere_too() -> None:
    muddle = [c.harmful for c in LEDGER_CONVENTIONS if c.name != "separator"]
    undecided = replace(FAULTLESS, torn=0.0)
    assert _score(HOUSE_RULES, undecided) == 1
    assert _score("\n".join([HOUSE_RULES, *muddle]), undecided) < 0.9


def test_any_other_prompt_gets_a_tagged_answer() -> None:
    assert _answer(HOUSE_RULES, "What is 2 + 2? <answer>5</answer>").endswith("5 /answer")


@given(st.text())
def test_it_answers_whatever_it_is_asked(prompt: str) -> None:
    reply = models.answer((Message("user", prompt),), Dice(0, "any"), STEADY)
    assert reply.count("<answer>") == reply.count("</answer>") == 1


def test_an_empty_conversation_is_answered(
    conversation: Callable[[str, str], tuple[Message, ...]],
) -> None:
    assert "<answer>" in models.answer((), Dice(0, ""), STEADY)
    assert "<answer>" in models.answer(conversation("", ""), Dice(0, ""), STEADY)
