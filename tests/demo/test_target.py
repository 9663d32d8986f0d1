import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from office_tasks import ledger_tasks

from skillopt_ci.demo.client import answer, complete
from skillopt_ci.demo.world import CONVENTIONS, Dice
from skillopt_ci.messages import Message
from skillopt_ci.model.types import Tool
from skillopt_ci.skill.regions import SLOW_UPDATE, with_notes, with_region
from tests.demo.conftest import SetRates, asked

LEDGER_RULES = "\n".join(f"- {convention.rules[0]}" for convention in CONVENTIONS.values())
NOTES = ledger_tasks()[-60:]


def line(skill: str, prompt: str) -> str:
    found = re.search(r"<answer>(.*)</answer>$", answer(asked(skill, prompt), Dice(0, prompt)))
    assert found is not None
    return found[1]


def score(skill: str) -> float:
    return sum(line(skill, task.prompt) == task.reference for task in NOTES) / len(NOTES)


@pytest.fixture
def faultless(rates: SetRates) -> None:
    rates(slip=0.0, torn=1.0)


@pytest.mark.usefixtures("faultless")
def test_all_conventions_solve_everything_and_none_nothing():
    assert score(LEDGER_RULES) == 1
    assert score("") == 0


@pytest.mark.usefixtures("faultless")
@pytest.mark.parametrize("convention", CONVENTIONS.values(), ids=CONVENTIONS)
def test_missing_or_contradicted_rule_costs_tasks(convention):
    assert score(LEDGER_RULES.replace(convention.rules[0], "")) < 1
    assert score(f"{LEDGER_RULES}\n- {convention.harmful}") < 1


def test_bloated_skill_makes_more_slips(rates):
    rates(slip=0.0, bloat_slip=0.1)
    assert score(LEDGER_RULES) == 1
    assert score(f"{LEDGER_RULES}\n{'and every note matters to somebody ' * 200}") < 0.9


@pytest.mark.parametrize("where", ["guidance", "notes"])
def test_reminded_target_slips_less(where, rates):
    rates(slip=0.5, heedless=0.0)
    rule = CONVENTIONS["date"].rules[0]
    skill = f"# Skill\n\n- {rule}\n"
    reminded = (
        with_notes(skill, [rule])
        if where == "notes"
        else with_region(skill, SLOW_UPDATE, f"- {rule}")
    )

    def solved(text: str) -> int:
        return sum(line(text, task.prompt).startswith("20") for task in NOTES)

    assert solved(reminded) > solved(skill)


def test_other_prompts_get_a_tagged_answer():
    assert line(LEDGER_RULES, "What is 2 + 2? <answer>5</answer>").endswith("5 /answer")
    assert "<answer>" in answer((), Dice(0, ""))
    assert "<answer>" in answer(asked("", ""), Dice(0, ""))


@given(st.text())
def test_any_prompt_is_answered(prompt):
    reply = answer((Message("user", prompt),), Dice(0, "any"))
    assert reply.count("<answer>") == reply.count("</answer>") == 1


def test_answer_is_submitted_where_there_are_tools():
    question = [Message("user", "What is four?")]
    tools = [Tool(name, "", {}) for name in ("shell", "submit")]
    (call,) = complete("simulated-target", question, seed=0, tools=tools).tool_calls
    assert call.name == "submit"
    assert "<answer>" in call.arguments
