from __future__ import annotations

import pytest
from solver_play import play

from skillopt_ci.agents.manual import ScriptedSolver
from skillopt_ci.config.rollout import ScriptedConfig
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Message
from skillopt_ci.rollout.types import ModelSaid, ToolUsed
from skillopt_ci.tasks.task import Task


def scripted(**settings: object) -> ScriptedSolver:
    return ScriptedSolver(ScriptedConfig.model_validate({"type": "scripted", **settings}))


def test_its_commands_are_run_one_after_the_other():
    solver = scripted(commands=["echo a > f; exit 3", ["sh", "-c", "cat f"]], answer="done")
    played = play(solver, look=["f"])
    assert [step.output for step in played.of(ToolUsed)] == [
        "[exit code 3]\n",
        "[exit code 0]\na\n",
    ]
    assert played.attempt.response == "done"
    assert played.attempt.n_turns == len(played.of(ModelSaid)) == 3
    assert played.attempt.usage.calls == 0


def test_a_task_may_bring_its_own_script():
    metadata = {"script": {"commands": ["echo own > f"], "answer": "mine"}}
    task = Task("t", (Message("user", "x"),), metadata=metadata)
    played = play(scripted(commands=["false"]), task=task, look=["f"])
    assert played.files == {"f": "own\n"}
    assert played.attempt.response == "mine"


@pytest.mark.parametrize("script", [["echo"], {"comands": ["echo"]}, {"commands": 3}])
def test_what_is_no_script_is_told_with_the_task(script):
    task = Task("odd", (Message("user", "x"),), metadata={"script": script})
    with pytest.raises(UsageError, match=r"task 'odd': `metadata\.script` is no script"):
        play(scripted(), task=task)


def test_an_answer_needs_no_computer():
    solver = scripted(answer="4")
    assert not solver.needs_computer
    assert play(solver, computer=False).attempt.response == "4"
    assert scripted(commands=["ls"]).needs_computer


def test_commands_need_one():
    with pytest.raises(UsageError, match="no computer"):
        play(scripted(commands=["ls"]), computer=False)
