"""The simulated target: its answers, and its work with tools."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.client import answer, complete
from skillopt_ci.demo.world import CONVENTIONS, LEDGER, SHELL, Convention, Dice
from skillopt_ci.messages import Message
from skillopt_ci.model.types import Tool
from skillopt_ci.skill.regions import SLOW_UPDATE, with_notes, with_region
from tests.demo.conftest import asked
from tests.support.office_tasks import ROOT, ShellTask, ledger_tasks, shell_tasks

if TYPE_CHECKING:
    from tests.demo.conftest import SetRates

LEDGER_RULES = "\n".join(f"- {convention.rules[0]}" for convention in LEDGER)
SHELL_RULES = "\n".join(f"- {convention.rules[0]}" for convention in SHELL)
NOTES = ledger_tasks(11, 60)
ORDERS = shell_tasks(7, 12)
TOOLS = tuple(Tool(name, "", {}) for name in ("shell", "read", "write", "submit"))


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
def test_all_conventions_solve_everything_and_none_nothing() -> None:
    assert score(LEDGER_RULES) == 1
    assert score("") == 0


@pytest.mark.usefixtures("faultless")
@pytest.mark.parametrize("convention", LEDGER, ids=lambda c: c.name)
def test_missing_or_contradicted_rule_costs_tasks(convention: Convention) -> None:
    assert score(LEDGER_RULES.replace(convention.rules[0], "")) < 1
    assert score(f"{LEDGER_RULES}\n- {convention.harmful}") < 1


def test_slips_happen_at_about_their_rate() -> None:
    assert 0.8 < score(LEDGER_RULES) < 1


def test_bloated_skill_makes_more_slips(rates: SetRates) -> None:
    rates(slip=0.0, bloat_slip=0.1)
    assert score(LEDGER_RULES) == 1
    assert score(f"{LEDGER_RULES}\n{'and every note matters to somebody ' * 200}") < 0.9


def test_contradictions_make_it_slip_elsewhere_too(rates: SetRates) -> None:
    rates(slip=0.0, torn=0.0)
    muddle = [c.harmful for c in LEDGER if c.name != "separator"]
    assert score("\n".join([LEDGER_RULES, *muddle])) < 0.9


@pytest.mark.parametrize("where", ["guidance", "notes"])
def test_reminded_target_slips_less(where: str, rates: SetRates) -> None:
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


def test_other_prompts_get_a_tagged_answer() -> None:
    assert line(LEDGER_RULES, "What is 2 + 2? <answer>5</answer>").endswith("5 /answer")
    assert "<answer>" in answer((), Dice(0, ""))
    assert "<answer>" in answer(asked("", ""), Dice(0, ""))


@given(st.text())
def test_any_prompt_is_answered(prompt: str) -> None:
    reply = answer((Message("user", prompt),), Dice(0, "any"))
    assert reply.count("<answer>") == reply.count("</answer>") == 1


# Work with tools.


def work(skill: str, task: ShellTask, folder: Path, tools: Sequence[Tool] = TOOLS) -> None:
    """Let the target work in ``folder`` until it submits."""
    (folder / task.source).parent.mkdir(parents=True)
    (folder / task.source).write_text(task.content)
    talk = [*asked(skill, task.prompt)]
    for _ in range(10):
        said = complete("simulated-target", talk, seed=0, tools=tools)
        (call,) = said.tool_calls
        assert said.finish_reason == "tool_calls"
        given = json.loads(call.arguments)
        if call.name == "submit":
            return
        if call.name == "write":
            (folder / given["path"]).parent.mkdir(exist_ok=True)
            (folder / given["path"]).write_text(given["content"])
        else:
            subprocess.run(["sh", "-c", given["command"]], cwd=folder, check=True, stdout=-3)
        talk += [
            Message("assistant", said.text, tool_calls=said.tool_calls),
            Message("tool", "ok", tool_call_id=call.id),
        ]
    pytest.fail("it never submits")


def faults(task: ShellTask, folder: Path) -> tuple[float, set[str]]:
    """Return the share of checks that passed, and what the checker says of the others."""
    (folder / "check.sh").write_bytes((ROOT / "examples/shell/grading/check.sh").read_bytes())
    done = subprocess.run(
        ["sh", "check.sh", *task.checks], cwd=folder, capture_output=True, text=True, check=True
    )
    return float(done.stdout), {line.rstrip(";") for line in done.stderr.splitlines()}


@pytest.mark.parametrize("task", ORDERS[:6], ids=lambda task: task.id)
def test_agent_keeps_the_conventions_that_it_is_told(task: ShellTask, tmp_path: Path) -> None:
    work(SHELL_RULES, task, tmp_path / "told")
    assert faults(task, tmp_path / "told") == (1.0, set())
    work("", task, tmp_path / "untold")
    share, said = faults(task, tmp_path / "untold")
    assert said == {one.failure for one in SHELL if one.name in task.checks}
    assert 0 < share < 1


@pytest.mark.parametrize("convention", SHELL, ids=lambda c: c.name)
def test_agent_learns_each_convention_by_itself(convention: Convention, tmp_path: Path) -> None:
    task = next(task for task in shell_tasks(7, 60) if convention.name in task.checks)
    for skill, broken in ((f"- {convention.rules[1]}", False), (convention.harmful, True)):
        folder = tmp_path / str(broken)
        work(skill, task, folder)
        assert (convention.failure in faults(task, folder)[1]) is broken


def test_checker_finds_missing_and_wrong_scripts(tmp_path: Path) -> None:
    task = ORDERS[0]
    assert faults(task, tmp_path) == (0.0, {"there is no script"})
    work(SHELL_RULES, task, tmp_path)
    (script,) = (file for file in tmp_path.rglob("*.sh") if file.name != "check.sh")
    script.write_text("#!/bin/sh\nset -eu\necho nonsense\n")
    assert "the script does not do its job" in faults(task, tmp_path)[1]


@pytest.mark.parametrize("names", [("shell", "submit"), ("write", "submit")])
def test_agent_makes_do_with_fewer_tools(names: Iterable[str], tmp_path: Path) -> None:
    tools = [tool for tool in TOOLS if tool.name in names]
    task = next(task for task in ORDERS if "executable" not in task.checks)
    work(SHELL_RULES, task, tmp_path, tools)
    assert faults(task, tmp_path) == (1.0, set())


def test_agent_keeps_to_its_first_plan_whatever_it_sees() -> None:
    talk = asked(SHELL_RULES, ORDERS[0].prompt)
    first = complete("simulated-target", talk, seed=0, tools=TOOLS)
    said = Message("assistant", first.text, tool_calls=first.tool_calls)
    seconds = {
        complete(
            "simulated-target",
            [*talk, said, Message("tool", shown, tool_call_id="call_0")],
            seed=0,
            tools=TOOLS,
        ).tool_calls
        for shown in ("", "a", "b")
    }
    assert len(seconds) == 1


def test_question_that_needs_no_tools_is_submitted() -> None:
    question = [Message("user", "What is four?")]
    (call,) = complete("simulated-target", question, seed=0, tools=TOOLS).tool_calls
    assert call.name == "submit"
    assert "<answer>" in call.arguments
