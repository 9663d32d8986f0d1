from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import BudgetExhausted, ModelSetupError, TooManyErrors
from skillopt_ci.model.client import ModelRefusal, ModelUnavailable
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.outcome import Rollout, Status
from skillopt_ci.rollout.runner import Runner, refuse_too_many_errors
from skillopt_ci.rollout.scorers import TaskScorers
from skillopt_ci.rollout.solver import Attempt, ChatSolver
from skillopt_ci.settings.scorer import CommandScorer, ExactScorer
from skillopt_ci.tasks.task import Task

if TYPE_CHECKING:
    from tests.rollout.conftest import MakeRollout, MakeTask, ScriptedModel


def runner(model: ScriptedModel) -> Runner:
    scorers = TaskScorers(ExactScorer(type="exact"), judge=None, root=Path(), environ={})
    return Runner(ChatSolver(model, Prompts.load()), scorers, concurrency=3)


def roll_out(model: ScriptedModel, *tasks: object, **how: object) -> tuple[Rollout, ...]:
    return asyncio.run(runner(model).roll_out(tasks, "Skill.", stage="rollout", **how))  # type: ignore[arg-type]


def test_results_are_scored_and_in_task_order(
    make_task: MakeTask, scripted: type[ScriptedModel]
) -> None:
    model = scripted(lambda text: text if text != "b" else "something else")
    found = roll_out(model, *map(make_task, "abc"), attempt=1)
    assert [(one.task_id, one.hard, one.attempt) for one in found] == [
        ("a", 1.0, 1),
        ("b", 0.0, 1),
        ("c", 1.0, 1),
    ]


def test_each_result_is_told_when_it_comes(
    make_task: MakeTask, scripted: type[ScriptedModel]
) -> None:
    told: list[Rollout] = []
    found = roll_out(scripted(str), make_task("a"), make_task("b"), done=told.append)
    assert sorted(one.task_id for one in told) == [one.task_id for one in found]


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (ModelRefusal("content filter"), Status.REFUSED),
        (ModelUnavailable("still 500"), Status.ERROR),
    ],
)
def test_a_failure_of_one_task_is_its_own_outcome(
    failure: Exception, status: Status, make_task: MakeTask, scripted: type[ScriptedModel]
) -> None:
    model = scripted(lambda text: failure if text == "a" else text)
    bad, good = roll_out(model, make_task("a", task_type="kind"), make_task("b"))
    assert (bad.status, bad.hard, bad.reason) == (status, 0.0, str(failure))
    assert (bad.task_type, good.status) == ("kind", Status.SCORED)


@pytest.mark.parametrize("failure", [ModelSetupError("wrong key"), BudgetExhausted("spent")])
def test_a_failure_of_all_tasks_is_raised(
    failure: Exception, make_task: MakeTask, scripted: type[ScriptedModel]
) -> None:
    with pytest.raises(type(failure)):
        roll_out(scripted(lambda text: failure), make_task("a"), make_task("b"))


def test_a_scorer_that_fails_leaves_the_answer_ungraded(
    make_task: MakeTask, scripted: type[ScriptedModel]
) -> None:
    broken = CommandScorer(type="command", command=("/nonexistent/scorer",))
    (found,) = roll_out(scripted(str), make_task("a", scorer=broken))
    assert (found.status, found.hard, found.answer) == (Status.GRADER_ERROR, 0.0, "a")
    assert found.messages[-1].content == "a"
    assert found.reason


@pytest.mark.parametrize(("errors", "limit"), [(0, 0.0), (1, 0.25), (2, 0.5), (3, 0.75)])
def test_few_errors_are_put_up_with(errors: int, limit: float, make_rollout: MakeRollout) -> None:
    rollouts = [make_rollout(0.0, Status.ERROR)] * errors + [make_rollout(1.0)] * (4 - errors)
    refuse_too_many_errors(rollouts, limit, "selection")


@pytest.mark.parametrize(("errors", "limit"), [(1, 0.0), (2, 0.25), (4, 1.0)])
def test_many_errors_are_not_and_the_commonest_reason_is_named(
    errors: int, limit: float, make_rollout: MakeRollout
) -> None:
    failed = [make_rollout(0.0, Status.ERROR, reason="no route")] * errors
    rollouts = [*failed, *[make_rollout(1.0)] * (4 - errors)]
    with pytest.raises(TooManyErrors, match=f"{errors} of 4 selection tasks.*no route"):
        refuse_too_many_errors(rollouts, limit, "selection")


def test_no_attempts_are_no_errors() -> None:
    refuse_too_many_errors([], 0.0, "selection")


class Telling:
    """Solves a task by saying its name, and tells how."""

    async def solve(self, task: Task, skill: str, *, stage: str, attempt: int) -> Attempt:
        return Attempt((), task.id, trace="looked at the name")


def test_the_trace_of_an_attempt_is_kept(make_task: MakeTask) -> None:
    scorers = TaskScorers(ExactScorer(type="exact"), judge=None, root=Path(), environ={})
    work = Runner(Telling(), scorers, concurrency=1).roll_out([make_task("a")], "", stage="rollout")
    (found,) = asyncio.run(work)
    assert (found.hard, found.trace) == (1.0, "looked at the name")
