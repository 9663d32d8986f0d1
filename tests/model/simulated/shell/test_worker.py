from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.models import SHELL_CONVENTIONS, ShellTask, complete, generate_orders
from skillopt_ci.messages import Message
from skillopt_ci.model.types import Tool

TOOLS = tuple(Tool(name, "", {}) for name in ("shell", "read", "write", "submit"))
CHECK = Path(__file__).parents[4] / "examples" / "shell" / "grading" / "check.sh"
BEST = "\n".join(f"- {convention.rules[0]}" for convention in SHELL_CONVENTIONS)
TASKS = generate_orders(7, 12)


def work(skill: str, task: ShellTask, folder: Path, tools: Sequence[Tool] = TOOLS) -> int:
    """Let the target work in ``folder``; return how many turns that took."""
    (folder / task.source).parent.mkdir(parents=True)
    (folder / task.source).write_text(task.content)
    talk = [Message("system", skill), Message("user", task.prompt)]
    for turn in range(1, 10):
        said = complete("simulated-target", talk, seed=0, attempt=0, limit=None, tools=tools)
        (call,) = said.tool_calls
        assert said.finish_reason == "tool_calls"
        given = json.loads(call.arguments)
        if call.name == "submit":
            return turn
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
    (folder / "check.sh").write_bytes(CHECK.read_bytes())
    done = subprocess.run(
        ["sh", "check.sh", *task.checks], cwd=folder, capture_output=True, text=True, check=True
    )
    return float(done.stdout), {line.rstrip(";") for line in done.stderr.splitlines()}


@pytest.mark.parametrize("task", TASKS[:6], ids=lambda task: task.id)
def test_a_skill_that_states_the_house_style_passes(task: ShellTask, tmp_path: Path) -> None:
    work(BEST, task, tmp_path)
    assert faults(task, tmp_path) == (1.0, set())


@pytest.mark.parametrize("task", TASKS[:6], ids=lambda task: task.id)
def test_without_a_skill_the_checker_names_each_convention(task: ShellTask, tmp_path: Path) -> None:
    work("", task, tmp_path)
    shown = [c for c in SHELL_CONVENTIONS if c.name in task.checks]
    share, said = faults(task, tmp_path)
    assert said == {convention.failure for convention in shown}
    assert 0 < share < 1


def test_each_convention_is_learnt_by_itself(tmp_path: Path) -> None:
    for convention in SHELL_CONVENTIONS:
        task = next(task for task in generate_orders(7, 60) if convention.name in task.checks)
        for skill, broken in ((f"- {convention.rules[1]}", False), (convention.harmful, True)):
            folder = tmp_path / f"{convention.name}-{broken}"
            work(skill, task, folder)
            assert (convention.failure in faults(task, folder)[1]) is broken


def test_nothing_written_scores_nothing(tmp_path: Path) -> None:
    assert faults(TASKS[0], tmp_path) == (0.0, {"there is no script"})


def test_a_script_that_does_something_else_is_found_out(tmp_path: Path) -> None:
    task = TASKS[0]
    work(BEST, task, tmp_path)
    (script,) = (file for file in tmp_path.rglob("*.sh"))
    script.write_text("#!/bin/sh\nset -eu\necho nonsense\n")
    assert "the script does not do its job" in faults(task, tmp_path)[1]


@pytest.mark.parametrize("names", [("shell", "submit"), ("write", "submit")])
def test_it_makes_do_with_fewer_tools(names: Iterable[str], tmp_path: Path) -> None:
    tools = [tool for tool in TOOLS if tool.name in names]
    task = next(task for task in TASKS if "executable" not in task.checks)
    work(BEST, task, tmp_path, tools)
    assert faults(task, tmp_path) == (1.0, set())


def test_its_mind_is_made_up_at_the_beginning() -> None:
    """What it has seen on the way changes nothing: each turn is of the same plan."""
    asked = [Message("system", BEST), Message("user", TASKS[0].prompt)]
    first = complete("simulated-target", asked, seed=0, attempt=0, limit=None, tools=TOOLS)
    said = Message("assistant", first.text, tool_calls=first.tool_calls)
    seconds = {
        complete(
            "simulated-target",
            [*asked, said, Message("tool", shown, tool_call_id="call_0")],
            seed=0,
            attempt=0,
            limit=None,
            tools=TOOLS,
        ).tool_calls
        for shown in ("", "a", "b")
    }
    assert len(seconds) == 1


def test_a_question_that_needs_no_tools_is_submitted() -> None:
    asked = [Message("user", "What is four?")]
    said = complete("simulated-target", asked, seed=0, attempt=0, limit=None, tools=TOOLS)
    assert [call.name for call in said.tool_calls] == ["submit"]
    assert "<answer>" in said.tool_calls[0].arguments


@given(seed=st.integers(0, 50))
def test_a_larger_world_keeps_the_earlier_tasks(seed: int) -> None:
    few, many = generate_orders(seed, 3), generate_orders(seed, 9)
    assert many[:3] == few
    assert len({task.prompt for task in many}) == 9
