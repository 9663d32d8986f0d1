"""Attempts are numbered, so that a step learns something new and nothing is paid for twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillopt_ci.training.measure import next_rounds, rounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillopt_ci.tasks.task import Task
    from tests.conftest import Checkout, ModelServer


def test_a_task_that_was_attempted_gets_the_next_number(make_task: Callable[..., Task]) -> None:
    made = [("a", 0), ("b", 0), ("a", 1)]
    numbered = next_rounds([make_task(name) for name in "abc"], made, 1)
    assert [(task.id, number) for task, number in numbered] == [("a", 2), ("b", 1), ("c", 0)]


def test_a_round_has_all_its_attempts_together(make_task: Callable[..., Task]) -> None:
    found = rounds([(make_task("a"), 1), (make_task("b"), 0)], "# S", "rollout", 2)
    assert [(one.task.id, one.attempt) for one in found] == [("a", 2), ("a", 3), ("b", 0), ("b", 1)]


def test_while_the_skill_stays_its_earlier_attempts_are_shown_again(
    checkout: Checkout, model_server: ModelServer
) -> None:
    model_server.plan = ("Of no use.", "Nor is this.", "Nor that.")
    first = checkout.done()
    assert first.decision.action == "reject"
    paid = model_server.answered.total()
    model_server.prompts.clear()
    checkout.step()
    analysts = [one for one in model_server.optimizer_prompts if "Trajectories (" in one]
    shown = "".join(analysts)
    tasks = [
        task.id for record in (1, 2) for task in checkout.record(record).proposal.rollout.tasks
    ]
    assert len(tasks) == 8
    assert all(f"Item {task[1:]} of kind" in shown for task in tasks)
    rolled_out = [one for one in model_server.prompts if "Stage:" not in one]
    assert model_server.answered.total() > paid
    again = [f"Item {task[1:]} of kind {task[0]}" for task in tasks[:4]]
    assert not any(prompt.endswith(item) for prompt in rolled_out for item in again)


def test_own_attempts_alone_where_no_more_are_wanted(
    checkout: Checkout, model_server: ModelServer
) -> None:
    model_server.plan = ("Of no use.", "Nor is this.")
    checkout.step("gradient.evidence=0")
    first = [task.id for task in checkout.record(1).proposal.rollout.tasks]
    model_server.prompts.clear()
    checkout.step("gradient.evidence=0")
    shown = "".join(one for one in model_server.optimizer_prompts if "Trajectories (" in one)
    assert not any(f"Item {task[1:]} of kind" in shown for task in first)


def test_the_next_epoch_attempts_the_same_tasks_afresh(
    checkout: Checkout, model_server: ModelServer
) -> None:
    model_server.plan = ()
    for _ in range(3):
        checkout.step()
    numbers = [
        task.attempt for step in (1, 2, 3) for task in checkout.record(step).proposal.rollout.tasks
    ]
    assert numbers == [0] * 8 + [1] * 4
