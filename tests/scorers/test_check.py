import os
import re
import sys
from pathlib import Path
from typing import Literal, get_args

import pytest

from skillopt_ci.config import scorers
from skillopt_ci.config.reference import choices, fields
from skillopt_ci.confinement import confine
from skillopt_ci.errors import TaskFileError, UsageError
from skillopt_ci.rollout.graders import TaskScorers, check_scorers, check_spec, check_task
from skillopt_ci.scorers.base import GraderError
from skillopt_ci.scorers.code import Functions
from skillopt_ci.scorers.text import GRADERS
from skillopt_ci.tasks.task import Splits

PATTERN = {"type": "regex", "pattern": "a"}
OWN_COMPUTER = {"type": "computer", "command": "true", "same_computer": True}
EXACT = scorers.ExactScorer(type="exact")
KINDS = {
    choices(fields(kind)["type"].annotation)[0]: kind
    for kind in get_args(get_args(scorers.ScorerSpec)[0])
}
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "tasks-and-scorers.md"


def test_every_kind_has_its_grader_and_its_row_in_the_guide():
    others = {name for name, kind in KINDS.items() if kind not in GRADERS}
    built = {"command", "python", "rubric", "computer", "all", "any", "weighted"}
    assert others == built, "in GRADERS (scorers/text.py), or here and in TaskScorers._build"
    table = GUIDE.read_text(encoding="utf-8").partition("| scorer |")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)`", " ".join(row[: row.find(" | ")] for row in table.splitlines()))
    assert {*named} == KINDS.keys(), f"rows under 'Choose a scorer' in {GUIDE}"


class AskedScorer(scorers.AnswerScorer):
    type: Literal["asked"] = "asked"


def test_grades_of_a_new_kind_are_not_kept(make_task, tmp_path):
    parts = {"judge": None, "root": tmp_path, "functions": Functions({})}
    assert TaskScorers(EXACT, **parts).facts(make_task("a")) is not None
    assert TaskScorers(AskedScorer(), **parts).facts(make_task("a")) is None


COMPARING = ("exact", "normalized", "f1", "anls", "number", "choice", "json")


@pytest.mark.parametrize(
    ("kind", "keys", "references", "fault"),
    [
        *((kind, {}, [], "no references") for kind in COMPARING),
        ("number", {}, ["42", "many"], "'many' is not one number"),
        ("number", {}, ["1-2"], "not one number"),
        ("number", {}, ["1 or 2"], "not one number"),
        ("choice", {"choices": {"A": "x"}}, ["B"], "none of the choices A"),
        ("json", {}, ["{"], "is not JSON"),
        ("contains", {}, [], "neither the scorer nor"),
        ("contains", {"contains": [""]}, [], "every answer contains an empty text"),
        ("contains", {}, [""], "every answer contains an empty reference"),
        ("rubric", {}, [], "neither the scorer's rubric nor"),
        ("command", {"command": ["no-such-program"]}, [], "not found on the PATH"),
        ("command", {"command": ["./missing.sh"]}, [], "not an executable file"),
        ("command", {"command": ["./read.sh"]}, [], "not an executable file"),
        ("all", {"of": [PATTERN, {"type": "exact"}]}, [], "no references"),
        ("any", {"of": [PATTERN, {"type": "contains", "contains": [""]}]}, ["x"], "empty text"),
        ("all", {"of": [OWN_COMPUTER, {"type": "rubric", "rubric": "?"}]}, [], "beside `rubric`"),
    ],
)
def test_unusable_scorer_is_found(tmp_path, make_task, make_spec, kind, keys, references, fault):
    spec, functions = make_spec(kind, **keys), Functions({"PATH": "/bin"})
    (tmp_path / "read.sh").touch(mode=0o644)
    found = check_spec(spec, tmp_path, functions) or check_task(spec, make_task(*references))
    assert found is not None
    assert fault in found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines programs")
@pytest.mark.parametrize("path", [os.environ["PATH"], "/nowhere"])
def test_a_folder_of_a_grader_may_not_lead_out(tmp_path, make_spec, path):
    for name in (".git/hooks", "grading"):
        (tmp_path / "repository" / name).mkdir(parents=True)
    (tmp_path / "repository/grading/answers").symlink_to(tmp_path)
    confine(tmp_path / "repository", {**os.environ, "PATH": path})
    for folder in (".git", "..", "/etc", "grading"):
        spec = make_spec("computer", command=["true"], folder=folder)
        found = check_spec(spec, tmp_path / "repository", Functions({})) or ""
        assert found.startswith(f"the grader's folder {folder!r} may not lead to /")
    assert found.endswith(f" {tmp_path}")  # the link's target is named


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        *((kind, {}) for kind in (*COMPARING, "contains", "rubric")),
        ("json", {"schema": {"type": "object"}}),
        ("contains", {"not_contains": ["x"]}),
        ("regex", {"pattern": "x"}),
        ("command", {"command": ["sh", "-c", "true"]}),
    ],
)
def test_scorer_that_can_work_passes(tmp_path, make_task, make_spec, kind, keys):
    spec = make_spec(kind, **keys)
    assert check_spec(spec, tmp_path, Functions({"PATH": "/bin:/usr/bin"})) is None
    assert check_task(spec, make_task("42")) is None


def test_a_function_is_loaded_in_its_own_process_without_secrets(tmp_path, make_task):
    code = "import os\nraise ValueError([name in os.environ for name in ('SEEN', 'A_API_KEY')])"
    (tmp_path / "g.py").write_text(code)
    spec = scorers.PythonScorer(type="python", entry="g.py:grade")
    environ = {**os.environ, "SEEN": "yes", "A_API_KEY": "sk-0123456789"}
    with pytest.raises(UsageError, match=r"g.py:grade: g.py cannot be imported: .*True, False"):
        check_scorers(Splits((make_task(),), (), ()), spec, root=tmp_path, environ=environ)


def test_faulty_scorer_of_the_run_is_reported_once(tmp_path, make_task):
    splits = Splits((make_task(),), (make_task(),), ())
    spec = scorers.ContainsScorer(type="contains", contains=("",))
    with pytest.raises(UsageError, match="scorer: every answer contains an empty text"):
        check_scorers(splits, spec, root=tmp_path, environ={})


def test_tasks_that_a_scorer_cannot_grade_are_listed(tmp_path, make_task):
    lines = [make_task(id=str(n), file=Path("t.jsonl"), line=n) for n in (1, 2)]
    splits = Splits((make_task("ref"),), tuple(lines), ())
    with pytest.raises(TaskFileError) as caught:
        check_scorers(splits, EXACT, root=tmp_path, environ={})
    assert caught.value.line == 1
    assert "t.jsonl:2: task '2': the task has no references" in caught.value.message


def test_task_without_any_scorer_is_refused(tmp_path, make_task):
    splits = Splits((make_task("x"),), (), (make_task("x", scorer=EXACT),))
    with pytest.raises(TaskFileError, match="has no scorer, and the configuration has none"):
        check_scorers(splits, None, root=tmp_path, environ={})


def test_own_scorer_of_a_task_is_checked_instead_of_the_run_s(tmp_path, make_task):
    own = scorers.RegexScorer(type="regex", pattern="x")  # unlike the run's, it needs no references
    graded = make_task(id="own", file=Path("t.jsonl"), line=1, scorer=own)
    ungraded = make_task(id="none", file=Path("t.jsonl"), line=2)
    with pytest.raises(TaskFileError) as caught:
        check_scorers(Splits((graded, ungraded), (), ()), EXACT, root=tmp_path, environ={})
    assert caught.value.line == 2
    assert "'own'" not in str(caught.value)


def test_unchecked_task_is_a_grader_error_not_a_failure(grade):
    with pytest.raises(GraderError, match="task 't' cannot be graded: the task has no references"):
        grade("f1", "x")
