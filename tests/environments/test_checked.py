"""Mistakes in a user's environment are told as such."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.environments import api
from skillopt_ci.environments.api import Attempt, Environment, Message, Score, Task
from skillopt_ci.errors import UsageError
from skillopt_ci.scorers.base import GraderError


class Given(Environment):
    """Returns and raises what it is given."""

    def __init__(self, **given: Any) -> None:
        super().__init__(given, Path())

    def tasks(self, split: str) -> Any:
        return self._given("tasks")

    async def grade(self, task: Task, attempt: Attempt, parts: Any) -> Any:
        return self._given("score")

    async def reflect(self, asked: Any, client: Any) -> Any:
        return self._given("patches")

    def _given(self, key: str) -> Any:
        found = self.options[key]
        if isinstance(found, Exception):
            raise found
        return found


def task(name: Any = "t", role: Any = "user", **more: Any) -> Task:
    return Task(name, (Message(role, "x"),), **more)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([{"id": "t"}], "number 1 is a dict, expected a Task"),
        ([task(role="assistant")], "does not end with a message of the user"),
        ([task(metadata={"a": {1}})], "cannot be written as JSON"),
        ([task("a\nb")], "has no printable id"),
        ([task(7)], "has no printable id"),
        (RuntimeError("no data"), "raised RuntimeError: no data ("),
    ],
)
def test_tasks_that_are_none(tasks: Any, said: str) -> None:
    with pytest.raises(UsageError, match=r"Given\.tasks\('train'\)") as error:
        api.split_tasks(Given(tasks=tasks), "train")
    assert said in str(error.value)


def test_messages_for_people_pass_as_they_are() -> None:
    with pytest.raises(UsageError, match=r"^say it$"):
        api.split_tasks(Given(tasks=UsageError("say it")), "train")


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (1.0, "returned 1.0, expected a Score"),
        (Score(2, 1, "", ""), "expected scores from 0 to 1"),
        (Score(1, float("nan"), "", ""), "expected scores from 0 to 1"),
        (ZeroDivisionError("division"), "raised ZeroDivisionError: division ("),
    ],
)
def test_scores_that_are_none_are_the_graders_fault(score: Any, said: str) -> None:
    with pytest.raises(GraderError) as error:
        grade(score)
    assert said in str(error.value)


class Strict(Given):
    """Grades numbers, and nothing else that is there."""

    async def grade(self, task: Task, attempt: Attempt, parts: Any) -> Any:
        return Score(float(attempt.response or 0), 0.5, "", "")


def test_an_attempt_that_makes_the_grader_fail_scores_0() -> None:
    parts: Any = None
    for response, hard in (("1", 1.0), ("one", 0.0), ("7", 0.0)):
        score = asyncio.run(api.grade(Strict(), task(), Attempt((), response), parts))
        assert (score.hard, score.soft) == (hard, hard / 2)


def test_truth_values_become_scores() -> None:
    assert grade(Score(True, True, "r", "a")) == Score(1.0, 1.0, "r", "a")


def grade(score: Any) -> Score:
    parts: Any = None
    return asyncio.run(api.grade(Given(score=score), task(), Attempt((), ""), parts))


@pytest.mark.parametrize(
    ("patches", "said"),
    [
        (["edit"], "returned 'edit', expected patches (mappings)"),
        ([{"patch": {1, 2}}], "raised TypeError: Object of type set is not JSON serializable"),
        (None, "raised TypeError: 'NoneType' object is not iterable"),
        (OSError("no disk"), "environment: Given.reflect raised OSError: no disk ("),
    ],
)
def test_patches_that_are_none_are_told(patches: Any, said: str) -> None:
    with pytest.raises(UsageError) as error:
        reflect(patches)
    assert said in str(error.value)


def test_patches_are_handed_on() -> None:
    assert reflect([{"patch": {}}]) == ({"patch": {}},)


def reflect(patches: Any) -> Any:
    nobody: Any = None
    return asyncio.run(api.reflect(Given(patches=patches), nobody, nobody))
