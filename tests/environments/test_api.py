"""Reading and dividing tasks, and mistakes in a user's environment told as such."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.environments import api
from skillopt_ci.environments.api import (
    Attempt,
    Environment,
    Message,
    Score,
    Task,
    divided,
    read_entries,
    task_of,
)
from skillopt_ci.errors import TaskFileError, UsageError
from skillopt_ci.scorers.base import GraderError


def test_an_entry_has_the_keys_of_a_task_file(tmp_path):
    (tmp_path / "a.txt").write_text("attached", encoding="utf-8")
    found = task_of({"id": 7, "prompt": "p", "references": "r", "files": ["a.txt"]}, tmp_path)
    assert (found.id, found.references, found.files[0].content) == ("7", ("r",), "attached")


def test_a_wrong_entry_is_explained(tmp_path):
    with pytest.raises(TaskFileError, match="did you mean references"):
        task_of({"id": "1", "prompt": "p", "answer": "r"}, tmp_path)


def test_a_file_is_divided_the_same_way_every_time(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text("".join(f'{{"id": "{n}", "prompt": "p{n}"}}\n' for n in range(8)))
    tasks = read_entries(file)
    parts = divided(tasks, "2:1:1")
    assert [len(parts[name]) for name in ("train", "selection", "test")] == [4, 2, 2]
    assert divided(tasks, "2:1:1") == parts
    assert divided(tasks, "2:1:1", seed=1) != parts
    with pytest.raises(UsageError, match="leave nothing for"):
        divided(tasks[:2], "1:1:1")


def test_a_file_with_a_wrong_line_is_refused(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text('{"id": "1"}\n')
    with pytest.raises(TaskFileError, match=r"t\.jsonl:1"):
        read_entries(file)


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
def test_tasks_that_are_none(tasks, said):
    with pytest.raises(UsageError, match=r"Given\.tasks\('train'\)") as error:
        api.split_tasks(Given(tasks=tasks), "train")
    assert said in str(error.value)


def test_messages_for_people_pass_as_they_are():
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
def test_scores_that_are_none_are_the_graders_fault(score, said):
    with pytest.raises(GraderError) as error:
        grade(score)
    assert said in str(error.value)


class Strict(Given):
    """Grades numbers, and nothing else that is there."""

    async def grade(self, task: Task, attempt: Attempt, parts: Any) -> Any:
        return Score(float(attempt.response or 0), 0.5, "", "")


def test_an_attempt_that_makes_the_grader_fail_scores_0():
    parts: Any = None
    for response, hard in (("1", 1.0), ("one", 0.0), ("7", 0.0)):
        score = asyncio.run(api.grade(Strict(), task(), Attempt((), response), parts))
        assert (score.hard, score.soft) == (hard, hard / 2)


def test_truth_values_become_scores():
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
def test_patches_that_are_none_are_told(patches, said):
    with pytest.raises(UsageError) as error:
        reflect(patches)
    assert said in str(error.value)


def test_patches_are_handed_on():
    assert reflect([{"patch": {}}]) == ({"patch": {}},)


def reflect(patches: Any) -> Any:
    nobody: Any = None
    return asyncio.run(api.reflect(Given(patches=patches), nobody, nobody))
