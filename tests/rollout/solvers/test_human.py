from __future__ import annotations

import asyncio
import io

import pytest
from solver_play import play

from skillopt_ci.agents.manual import HumanSolver, StreamTerminal
from skillopt_ci.config.rollout import HumanConfig
from skillopt_ci.messages import Message
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import AgentError, Asked, Nudged, ToolUsed
from skillopt_ci.tasks.task import Task


def at_terminal(typed: str) -> tuple[HumanSolver, io.StringIO]:
    shown = io.StringIO()
    return HumanSolver(HumanConfig(type="human"), StreamTerminal(io.StringIO(typed), shown)), shown


def test_a_person_reads_runs_and_submits():
    solver, shown = at_terminal("\necho hi | tee f\nfalse\nsubmit forty two\n")
    played = play(solver, "Say hi.", look=["f"])
    assert played.files == {"f": "hi\n"}
    assert played.attempt.response == "forty two"
    assert [step.exit_code for step in played.of(ToolUsed)] == [0, 1]
    assert "Say hi." in shown.getvalue()
    assert "Be brief." in shown.getvalue()
    assert "hi\n" in shown.getvalue()
    assert "[exit code 1]" in shown.getvalue()


def test_without_a_skill_a_person_reads_the_task_alone():
    solver, shown = at_terminal("submit x\n")
    (asked,) = play(solver, "Say hi.", skill="").of(Asked)
    assert asked.messages == (Message("user", "Say hi."),)
    assert shown.getvalue().startswith("── Task t ──\nSay hi.\n")


def test_what_is_shown_cannot_steer_the_terminal():
    solver, shown = at_terminal("printf '\\033[31mred'\nsubmit\n")
    play(solver, "Clear\x1b[2J the screen.")
    assert "\x1b" not in shown.getvalue()
    assert "Clear\ufffd[2J the screen." in shown.getvalue()


def test_a_submission_that_is_refused_is_told_why():
    objections = iter(["there is no report", None])

    async def check() -> str | None:
        return next(objections)

    solver, shown = at_terminal("submit a\nsubmit b\n")
    played = play(solver, place=Workplace("rollout", nudges=2, check_submission=check))
    assert [step.text for step in played.of(Nudged)] == ["there is no report"]
    assert "there is no report" in shown.getvalue()
    assert played.attempt.response == "b"


def test_the_end_of_input_is_no_submission():
    solver, _ = at_terminal("ls\n")
    with pytest.raises(AgentError, match="input ended"):
        play(solver)


def test_without_a_computer_only_an_answer_can_be_given():
    solver, shown = at_terminal("ls\nsubmit 4\n")
    assert play(solver, computer=False).attempt.response == "4"
    assert "no computer" in shown.getvalue()


def test_tasks_are_shown_one_at_a_time():
    async def both(solver: HumanSolver) -> None:
        async def one(name: str) -> None:
            task = Task(name, (Message("user", f"Task {name}"),))
            async for _ in solver.solve(task, "", Workplace("rollout")):
                await asyncio.sleep(0)

        await asyncio.gather(one("a"), one("b"))

    solver, shown = at_terminal("submit 1\nsubmit 2\n")
    asyncio.run(both(solver))
    text = shown.getvalue()
    assert text.index("── Task a ──") < text.index("$ ") < text.index("── Task b ──")
