import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.errors import UsageError
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.scorers.code import load_function
from skillopt_ci.tasks.task import Task

Grade = Callable[..., Score]
Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def _import_path(tmp_path: Path):
    yield
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def returning(write: Write, expression: str) -> str:
    write("graders/g.py", f"def grade(task, answer):\n    return {expression}\n")
    return "graders/g.py:grade"


@pytest.mark.parametrize(
    ("expression", "hard", "soft"),
    [
        ("True", 1, 1),
        ("False", 0, 0),
        ("0.5", 0, 0.5),
        ("1", 1, 1),
        ("{'soft': 0.5, 'hard': 1}", 1, 0.5),
        ("{'hard': True}", 1, 1),
        ("{'soft': 1.0, 'reason': 'good'}", 1, 1),
        ("answer == '42' and task['references'] == ['42'] and task['id'] == 't'", 1, 1),
    ],
)
def test_result_is_the_score(grade: Grade, write: Write, expression: str, hard: float, soft: float):
    entry = returning(write, expression)
    score = grade("python", "<answer>42</answer>", "42", entry=entry, answer="tag")
    assert (score.hard, score.soft) == (hard, soft)


def test_hard_threshold_is_configurable(grade: Grade, write: Write):
    assert grade("python", "x", entry=returning(write, "0.5"), hard_at=0.5).hard == 1


def test_reason_is_passed_on_as_one_line(grade: Grade, write: Write):
    entry = returning(write, "{'soft': 0, 'reason': 'too\\nlong'}")
    assert grade("python", "x", entry=entry).reason == "too long"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1.5", "returned 1.5, expected a score from 0 to 1"),
        ("float('nan')", "returned nan"),
        ("None", "returned None"),
        ("'1'", "returned '1'"),
        ("{'score': 1}", "unknown key 'score'"),
        ("{'reason': 'x'}", "neither 'soft' nor 'hard'"),
    ],
)
def test_result_that_is_no_score_is_a_grader_error(
    grade: Grade, write: Write, expression: str, message: str
):
    with pytest.raises(GraderError, match=message):
        grade("python", "x", entry=returning(write, expression))


@pytest.mark.parametrize(
    ("call", "name"), [("1 / 0", "ZeroDivisionError"), ("exit(0)", "SystemExit")]
)
def test_exception_is_a_grader_error_with_its_place(
    grade: Grade, write: Write, call: str, name: str
):
    with pytest.raises(GraderError, match=rf"{name}: .* \(.*g.py:2\)|{name}: 0 \("):
        grade("python", "x", entry=returning(write, call))


@pytest.mark.parametrize("answer", ["1 / 0", "exit(0)", "'no score'", "Event().wait()"])
def test_an_answer_that_makes_the_function_fail_scores_0(grade: Grade, write: Write, answer: str):
    entry = returning(write, "eval(answer or '0.5', {'Event': __import__('threading').Event})")
    assert grade("python", "", entry=entry).soft == 0.5
    score = grade("python", answer, entry=entry, timeout=0.5)
    assert (score.hard, score.soft) == (0, 0)
    assert "fails on this work, not on an empty submission" in score.reason


def test_hung_function_is_a_grader_error(grade: Grade, write: Write):
    entry = returning(write, "__import__('threading').Event().wait()")
    with pytest.raises(GraderError, match=r"took longer than 0.05 s"):
        grade("python", "x", entry=entry, timeout=0.05)


def test_grader_cannot_change_the_task(grade: Grade, write: Write, make_task: Callable[..., Task]):
    task = make_task(metadata={"list": []})
    entry = returning(write, "task['metadata']['list'].append(1) or True")
    assert grade("python", "x", task=task, entry=entry).hard == 1
    assert task.metadata == {"list": []}


def test_module_of_the_repository_is_importable(tmp_path: Path, write: Write):
    write("grading_pkg_for_test/inner.py", "def grade(task, answer):\n    return True\n")
    assert load_function("grading_pkg_for_test.inner:grade", tmp_path)({}, "") is True


def test_file_may_import_its_neighbours_and_hold_dataclasses(tmp_path: Path, write: Write):
    write("neighbour_for_test.py", "VALUE = 1.0\n")
    code = """
        from __future__ import annotations
        from dataclasses import dataclass
        from neighbour_for_test import VALUE

        @dataclass
        class Result:
            value: float

        def grade(task, answer):
            return Result(VALUE).value
    """
    write("g.py", textwrap.dedent(code))
    assert load_function("g.py:grade", tmp_path)({}, "") == 1


def test_repository_cannot_take_the_place_of_a_library(tmp_path: Path, write: Write):
    write("json_repair.py", "raise RuntimeError\n")
    write("g.py", "def grade(task, answer):\n    return True\n")
    load_function("g.py:grade", tmp_path)
    assert sys.path.index(str(tmp_path)) == len(sys.path) - 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def grad(task, answer): ...", "no function 'grade'; did you mean 'grad'"),
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("def grade(:", "SyntaxError"),
        ("exit(1)", "SystemExit"),
        ("async def grade(task, answer): ...", "must be a plain function"),
        ("grade = 1", "no function 'grade'"),
    ],
)
def test_function_that_cannot_be_loaded_is_explained(
    tmp_path: Path, write: Write, code: str, message: str
):
    write("g.py", code)
    with pytest.raises(UsageError, match=message):
        load_function("g.py:grade", tmp_path)


@pytest.mark.parametrize("entry", ["nope.py:grade", "no.such.module:grade"])
def test_missing_module_is_explained(tmp_path: Path, entry: str):
    with pytest.raises(UsageError, match="cannot be imported"):
        load_function(entry, tmp_path)
