"""Environments by name: built in, from installed packages, from files; and mistakes in naming."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.cli.build import read_tasks
from skillopt_ci.config.config import EnvironmentConfig
from skillopt_ci.config.loading import load
from skillopt_ci.environments import api
from skillopt_ci.environments.find import open_environment
from skillopt_ci.errors import TaskFileError, UsageError
from skillopt_ci.scorers.base import GraderError

CLASS = """
from skillopt_ci.environments.api import Environment, Message, Task

class Riddles(Environment):
    def tasks(self, split):
        n = int(self.options.get("count", 2))
        return [Task(f"{split}-{i}", (Message("user", f"{split} riddle {i}"),)) for i in range(n)]

class Half(Environment):
    pass

class Broken(Environment):
    def __init__(self, options, root):
        raise KeyError("nothing")

    def tasks(self, split):
        return []

class Other:
    pass
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {"riddles": CLASS, "slip": "\ndef (", "bare": ""}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_class_in_a_file_with_options(opened, root, monkeypatch):
    found = opened({"type": "riddles.py:Riddles", "count": 3})
    assert [task.id for task in api.split_tasks(found, "test")] == ["test-0", "test-1", "test-2"]
    assert (found.root, found.grades) == (root, False)
    assert found.identity() == {"type": "Riddles", "options": {"count": 3}}
    assert len(api.split_tasks(open_environment("riddles.py:Riddles", root, {}), "train")) == 2
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "riddle_module", raising=False)
    (root / "riddle_module.py").write_text(CLASS, encoding="utf-8")
    assert api.split_tasks(open_environment("riddle_module:Riddles", root, {}), "train")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("inspct", "there is no environment 'inspct'; did you mean 'inspect'\\?"),
        ("gymnastics!", "known are: inspect, promptfoo, skillopt"),
        ("riddles.py:Ridles", "has no class 'Ridles'; did you mean 'Riddles'\\?"),
        ("riddles.py:Other", "is not a subclass of skillopt_ci.environments.api.Environment"),
        ("riddles.py:Half", "Can't instantiate abstract class Half with.* method '?tasks"),
        ("riddles.py:Broken", "cannot be built: KeyError"),
        ("nowhere.py:Riddles", "environment: nowhere.py cannot be imported: FileNotFoundError"),
        ("no_such_module:Riddles", "cannot be imported: ModuleNotFoundError: .*'no_such_module'$"),
        ("slip.py:Riddles", r"slip.py cannot be imported: SyntaxError: .*\(slip.py, line 2\)$"),
        ("bare.py:Riddles", "^environment: bare.py has no class 'Riddles'; known are: none$"),
    ],
)
def test_mistakes_are_told_for_people(root, name, said):
    with pytest.raises(UsageError, match=said):
        open_environment(EnvironmentConfig(type=name), root, {})


def test_one_that_never_ends_loading_is_told_with_its_line(root):
    endless = "while True:\n try:\n  while True: pass\n except Exception: pass\n"
    (root / "endless.py").write_text(endless, encoding="utf-8")
    config = root / "skillopt.yaml"
    models = "{target: simulated/simulated-target, optimizer: simulated/simulated-optimizer}"
    config.write_text(f"{{run: x, skill: S.md, environment: 'endless.py:E', model: {models}}}")
    with pytest.raises(UsageError, match=r"did not load within 0\.5 s \(at .*endless\.py:[1-4]\)"):
        read_tasks(load(config), {}, 0.5)


def test_an_installed_package_offers_an_environment_by_name(root, monkeypatch):
    monkeypatch.syspath_prepend(root)
    monkeypatch.delitem(sys.modules, "riddles", raising=False)
    metadata = root / "riddle_environment-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: riddle-environment\nVersion: 1.0\n")
    offered = "[skillopt_ci.environments]\nriddles = riddles:Riddles\n"
    (metadata / "entry_points.txt").write_text(offered)
    found = open_environment(EnvironmentConfig(type="riddles", count=1), root.parent, {})
    assert [task.id for task in found.tasks("train")] == ["train-0"]


def test_an_entry_has_the_keys_of_a_task_file(tmp_path):
    (tmp_path / "a.txt").write_text("attached", encoding="utf-8")
    found = api.task_of({"id": 7, "prompt": "p", "references": "r", "files": ["a.txt"]}, tmp_path)
    assert (found.id, found.references, found.files[0].content) == ("7", ("r",), "attached")
    with pytest.raises(TaskFileError, match="did you mean references"):
        api.task_of({"id": "1", "prompt": "p", "answer": "r"}, tmp_path)


def test_a_file_is_divided_the_same_way_every_time(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text("".join(f'{{"id": "{n}", "prompt": "p{n}"}}\n' for n in range(8)))
    tasks = api.read_entries(file)
    parts = api.divided(tasks, "2:1:1")
    assert [len(parts[name]) for name in ("train", "selection", "test")] == [4, 2, 2]
    assert api.divided(tasks, "2:1:1") == parts != api.divided(tasks, "2:1:1", seed=1)
    with pytest.raises(UsageError, match="nothing is left for"):
        api.divided(tasks[:2], "1:1:1")
    file.write_text('{"id": "1"}\n')
    with pytest.raises(TaskFileError, match=r"t\.jsonl:1"):
        api.read_entries(str(file))


class Given(api.Environment):
    def __init__(self, **given: Any) -> None:
        super().__init__(given, Path())

    def tasks(self, split: str) -> Any:
        return self._given("tasks")

    async def grade(self, task: api.Task, attempt: api.Attempt, parts: Any) -> Any:
        return self._given("score")

    async def reflect(self, asked: Any, client: Any) -> Any:
        return self._given("patches")

    def _given(self, key: str) -> Any:
        found = self.options[key]
        if isinstance(found, BaseException):
            raise found
        return found


def task(name: Any = "t", role: Any = "user", **more: Any) -> api.Task:
    return api.Task(name, (api.Message(role, "x"),), **more)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([{"id": "t"}], "number 1 is a dict, expected a Task"),
        ([task(role="assistant")], "does not end with a message of the user"),
        ([task(metadata={"a": {1}})], "cannot be written as JSON"),
        ([task(scorer={"type": "exact"})], "is of the wrong type"),
        ([api.Task("t", ("x",))], "is of the wrong type"),  # type: ignore[arg-type]
        ([task(role=None)], "does not end with a message of the user"),
        ([api.Task("t", (api.Message("user", None),))], "is of the wrong type"),  # type: ignore[arg-type]
        ([task(references="yes")], "references must be a tuple of texts"),
        ([task(references=(1,))], "references must be a tuple of texts"),
        ([task("a\nb")], "has no printable id"),
        ([task(7)], "has no printable id"),
        (RuntimeError("no data"), "raised RuntimeError: no data ("),
        (asyncio.CancelledError("lost"), "raised CancelledError: lost ("),
    ],
)
def test_tasks_that_are_none(tasks, said):
    with pytest.raises(UsageError, match=r"Given\.tasks\('train'\)") as error:
        api.split_tasks(Given(tasks=tasks), "train")
    assert said in str(error.value)
    with pytest.raises(UsageError, match=r"^a message passes as it is$"):
        api.split_tasks(Given(tasks=UsageError("a message passes as it is")), "train")


def grade(score: Any) -> api.Score:
    parts: Any = None
    return asyncio.run(api.grade(Given(score=score), task(), api.Attempt((), ""), parts))


def reflect(patches: Any) -> Any:
    nobody: Any = None
    return asyncio.run(api.reflect(Given(patches=patches), nobody, nobody))


@pytest.mark.parametrize(
    ("call", "given", "said"),
    [
        (grade, 1.0, "returned 1.0, expected a Score"),
        (grade, api.Score(2, 1, "", ""), "expected scores from 0 to 1"),
        (grade, api.Score(1, float("nan"), "", ""), "expected scores from 0 to 1"),
        (grade, api.Score(None, "good", "", ""), "gave None (hard) and 'good' (soft)"),  # type: ignore[arg-type]
        (grade, ZeroDivisionError("division"), "raised ZeroDivisionError: division ("),
        (reflect, ["edit"], "returned 'edit', expected patches (mappings)"),
        (reflect, [{"patch": {1, 2}}], "TypeError: Object of type set is not JSON serializable"),
        (reflect, None, "raised TypeError: 'NoneType' object is not iterable"),
        (reflect, OSError("no disk"), "environment: Given.reflect raised OSError: no disk ("),
    ],
)
def test_scores_and_patches_that_are_none_are_the_environments_fault(call, given, said):
    with pytest.raises(GraderError if call is grade else UsageError) as error:
        call(given)
    assert said in str(error.value)


class Strict(Given):
    async def grade(self, task: api.Task, attempt: api.Attempt, parts: Any) -> Any:
        return api.Score(float(attempt.response or 0), 0.5, "", "")


def test_an_attempt_that_makes_the_grader_fail_scores_0_and_patches_are_handed_on():
    parts: Any = None
    for response, hard in (("1", 1.0), ("one", 0.0), ("7", 0.0)):
        score = asyncio.run(api.grade(Strict(), task(), api.Attempt((), response), parts))
        assert (score.hard, score.soft) == (hard, hard / 2)
    assert grade(api.Score(True, True, "r", "a")) == api.Score(1.0, 1.0, "r", "a")
    assert reflect([{"patch": {}}]) == ({"patch": {}},)
