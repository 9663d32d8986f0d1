"""Grading on real computers: what the agent left is data, the grader's files are the grader's."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from computer_kinds import SPEC, computers
from hypothesis import given
from hypothesis import strategies as st
from rollout_values import PLACES, make_task

from skillopt_ci.computer.computer import ComputerSpec
from skillopt_ci.config.rollout import AttemptLimits, ComputerBlock, LimitChanges
from skillopt_ci.config.scorers import AllScorer, ComputerScorer, ExactScorer, F1Scorer, ScorerSpec
from skillopt_ci.errors import UsageError
from skillopt_ci.rollout.computer_pool import ComputerPool
from skillopt_ci.rollout.graders import TaskScorers, read_report
from skillopt_ci.rollout.types import Attempt
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import ComputerTask

pytestmark = pytest.mark.integration

PASSES = "<testsuite><testcase name='a'/><testcase name='b'/></testsuite>"
HALF = "<testsuite><testcase name='a'/><testcase name='b'><failure/></testcase></testsuite>"


def scorers_of(
    spec: ScorerSpec | None,
    root: Path = Path(),
    pool: ComputerPool | None = PLACES,
    **limits: float,
) -> TaskScorers:
    made = AttemptLimits.model_validate(limits)
    functions = Functions({})
    return TaskScorers(spec, judge=None, root=root, functions=functions, pool=pool, limits=made)


class Bench:
    """Leaves something behind as an agent would, and grades it."""

    def __init__(self, root: Path) -> None:
        self.places, self.root = PLACES, root
        self.task = make_task("t", references=("done",))

    async def left(self, command: str) -> bytes:
        async with self.places.open(self.task) as computer:
            done = await computer.run(["sh", "-c", command], timeout=60)
            assert done.exit_code == 0, done.stderr
            return await computer.export(["**"], max_bytes=1_000_000)

    async def _grade(self, spec: ScorerSpec, command: str, seconds: float) -> Score:
        scorers = scorers_of(spec, self.root, self.places, grading_seconds=seconds)
        attempt = Attempt((), "done", artifacts=await self.left(command))
        return await scorers.grade(self.task, attempt)

    def grade(self, left: str, seconds: float = 60.0, **spec: object) -> Score:
        return asyncio.run(self._grade(ComputerScorer(type="computer", **spec), left, seconds))

    def grade_with(self, spec: ScorerSpec, left: str) -> Score:
        return asyncio.run(self._grade(spec, left, 20.0))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(("left", "hard"), [("echo 42 > out", 1.0), ("echo 41 > out", 0.0)])
def test_the_exit_status_decides(bench, left, hard):
    assert bench.grade(left, command=("grep", "-q", "42", "out")).hard == hard


def test_a_text_is_a_line_for_the_shell(bench):
    assert bench.grade("echo a > x", command="test -s x && test ! -e y").hard == 1.0
    assert bench.grade("true", command="test -e ready", setup=("touch ready",)).hard == 1.0


@pytest.mark.parametrize(("line", "hard", "soft"), [("1", 1.0, 1.0), ("0.75", 0.0, 0.75)])
def test_the_last_line_can_be_the_score(bench, line, hard, soft):
    found = bench.grade("true", command=f"echo checking; echo {line}", score="last_line")
    assert (found.hard, found.soft) == (hard, soft)


@pytest.mark.parametrize("line", ["", "1.5", "nan"])
def test_a_last_line_that_is_no_score_is_the_graders_fault(bench, line):
    with pytest.raises(GraderError, match="number from 0 to 1"):
        bench.grade("true", command=f"echo '{line}'", score="last_line")


@pytest.mark.parametrize(
    ("report", "status", "soft", "reason"),
    [
        (PASSES, 0, 1.0, "2 of 2 tests passed"),
        (HALF, 1, 0.5, "1 of 2 tests passed; failed: b"),
        (PASSES, 2, 2 / 3, "every test passed, but the grading command ended with status 2"),
        ("<testsuite/>", 1, 0.0, "the test report has no tests"),
    ],
)
def test_a_report_gives_partial_credit(bench, report, status, soft, reason):
    found = bench.grade("true", report={"command": f'echo "{report}" > report.xml; exit {status}'})
    assert (found.hard, found.soft, found.reason) == (soft == 1.0, soft, reason)


def test_a_missing_report_is_the_graders_fault_even_if_the_agent_left_one(bench):
    with pytest.raises(GraderError, match=r"report\.xml: there is no such file; .* 2: broken"):
        bench.grade(f'echo "{PASSES}" > report.xml', report={"command": "echo broken >&2; exit 2"})


def test_the_agents_tests_are_not_the_graders(bench):
    found = bench.grade(
        "mkdir tests; echo 'exit 0' > tests/check.sh; echo wrong > out",
        command=("sh", "tests/check.sh"),
        files={"tests/check.sh": "grep -q right out"},
    )
    assert found.hard == 0.0


@pytest.mark.parametrize(
    "obstacle",
    [
        "ln -s elsewhere tests; mkdir elsewhere",
        "echo a file > tests",
        "mkdir -p tests/check.sh/deep",
        "mkdir tests; ln -s ../out tests/check.sh",
    ],
)
def test_an_agent_cannot_stand_in_the_graders_way(bench, obstacle):
    found = bench.grade(
        f"echo right > out; {obstacle}",
        command='sh tests/check.sh && test "$(cat out)" = right && test ! -L tests',
        files={"tests/check.sh": "exit 0"},
    )
    assert found.hard == 1.0


def test_the_graders_files_can_lie_in_a_folder(bench, tmp_path):
    (tmp_path / "grader/sub").mkdir(parents=True)
    (tmp_path / "grader/sub/check.sh").write_text("grep -q right out\n", encoding="utf-8")
    found = bench.grade("echo right > out", command=("sh", "sub/check.sh"), folder="grader")
    assert found.hard == 1.0


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"command": "exit 127"}, "status 127"),
        ({"command": "exit 3", "error_status": (3,)}, "status 3"),
        ({"command": "kill -9 $$"}, "137"),
        ({"command": "true", "setup": ("exit 1",)}, "Set-up command 1 of the grader"),
        ({"command": "sleep 60", "on_timeout": "error"}, "longer than 0.3 s"),
    ],
)
def test_a_grader_that_does_not_work_leaves_the_attempt_unmeasured(bench, spec, why):
    seconds = 0.3 if "on_timeout" in spec else 60.0
    with pytest.raises(GraderError, match=why):
        bench.grade("true", seconds, **spec)


def test_a_limit_of_its_computer_is_the_works_only_if_nothing_else_reaches_it(bench):
    bench.places = ComputerPool(computers("sandbox"), SPEC)
    memory = "exec python3 -c 'bytearray(10**9)'"
    with pytest.raises(GraderError, match=r"limit of memory.*on an empty submission.* of memory"):
        bench.grade("true", command=memory)
    found = bench.grade("touch large", command=f"test ! -e large || {memory}")
    assert found.hard == 0.0
    assert "the computer's limit of memory" in found.reason


def test_a_grader_without_time_for_an_empty_submission_is_told_before_the_run():
    spec = ComputerScorer(type="computer", command="sleep 60")
    with pytest.raises(GraderError, match=r"longer than 0\.3 s"):
        asyncio.run(scorers_of(spec, grading_seconds=0.3).try_out(spec, make_task("a")))


def python(*lines: str) -> dict[str, Any]:
    return {"command": (sys.executable, "check.py"), "files": {"check.py": "\n".join(lines)}}


FORGED = "import os; os._exit(0)"
#: Bytecode that Python takes without a look at the source beside it.
UNCHECKED = """
import importlib._bootstrap_external as at, importlib.util, os
name = importlib.util.cache_from_source("tests/helper.py")
os.makedirs(os.path.dirname(name))
code = compile("right = lambda: True", "tests/helper.py", "exec")
open(name, "wb").write(at._code_to_hash_pyc(code, b"x" * 8, False))
"""


@pytest.mark.parametrize(
    "left",
    [
        f"echo '{FORGED}' > json.py",
        f"echo '{FORGED}' > pluggy.py",
        f"mkdir json unittest; echo '{FORGED}' | tee unittest/__init__.py > json/__init__.py",
        f"mkdir checks; echo '{FORGED}' > checks/__init__.py",
    ],
)
def test_the_works_modules_do_not_take_the_place_of_others(bench, left):
    check = python("import json, unittest, pluggy, checks", "raise SystemExit(1)")
    files = {**check["files"], "checks.py": ""}
    assert bench.grade(left, **{**check, "files": files}).hard == 0.0


def test_they_do_not_either_where_a_task_has_another_home(bench):
    bench.places = replace(PLACES, base=ComputerSpec(environ={"HOME": "/nowhere"}))
    check = python("import json", "raise SystemExit(1)")
    assert bench.grade(f"echo '{FORGED}' > json.py", **check).hard == 0.0


def test_a_module_that_python_runs_is_not_the_works(bench):
    left = f"mkdir unittest; echo '{FORGED}' | tee unittest/__init__.py > unittest/__main__.py"
    command = (sys.executable, "-m", "unittest", "test_it")
    test = "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.fail()"
    assert bench.grade(left, command=command, files={"test_it.py": test}).hard == 0.0


def test_bytecode_that_the_work_left_is_not_run(bench):
    files = {
        "check.py": "from tests.helper import right\nraise SystemExit(not right())",
        "tests/helper.py": "right = lambda: False",
    }
    left = f"{sys.executable} -c '{UNCHECKED}'"
    assert bench.grade(left, command=(sys.executable, "check.py"), files=files).hard == 0.0


def test_the_work_can_still_be_imported(bench):
    left = "mkdir package; echo 'import package.part' > work.py; echo 1 > package/part.py"
    assert bench.grade(left, **python("import json, work")).hard == 1.0


ENDINGS = [f"import os; os.{how}" for how in ("kill(os.getpid(), 9)", "_exit(126)", "_exit(127)")]


@pytest.mark.parametrize("ending", ENDINGS)
def test_work_that_ends_the_grader_scores_0(bench, ending):
    found = bench.grade(f"echo '{ending}' > work.py", **python("import work"))
    assert (found.hard, found.soft) == (0.0, 0.0)
    assert "not on an empty submission" in found.reason


@pytest.mark.parametrize("ending", [*ENDINGS, "raise SystemExit(0)", "print(2); raise SystemExit"])
def test_work_that_leaves_no_number_scores_0(bench, ending):
    check = python("try:\n    import work\nexcept ImportError:\n    pass\nprint(0.5)")
    assert bench.grade("true", score="last_line", **check).soft == 0.5
    assert bench.grade(f"echo '{ending}' > work.py", score="last_line", **check).soft == 0.0


def test_a_number_of_a_grader_that_was_killed_does_not_count(bench):
    left = "echo 'import os; print(1, flush=True); os.kill(os.getpid(), 15)' > work.py"
    check = python("try:\n    import work\nexcept ImportError:\n    print(0)")
    assert bench.grade(left, score="last_line", **check).soft == 0.0


@pytest.mark.parametrize(
    "work",
    [
        "raise SystemExit(0)",
        'open("report.xml", "w").write("<broken"); raise SystemExit(0)',
        f'import os; open("report.xml", "w").write("{PASSES}"); os.kill(os.getpid(), 9)',
        'import os; os.mkdir("report.xml")',
    ],
)
def test_work_that_keeps_the_report_away_scores_0(bench, work):
    lines = (
        "try:\n    import work\nexcept ImportError:\n    pass",
        f'open("report.xml", "w").write("{HALF}")',
    )
    check = python(*lines)
    report = {"command": check["command"]}
    assert bench.grade("true", report=report, files=check["files"]).soft == 0.5
    work = work.replace("'", '"').replace('name="', 'name=\\"')
    found = bench.grade(f"cat > work.py <<'X'\n{work}\nX", report=report, files=check["files"])
    assert (found.hard, found.soft) == (0.0, 0.0)


def test_work_that_fails_the_graders_setup_scores_0(bench):
    setup = ("test ! -e Makefile || sh Makefile",)
    assert bench.grade("echo exit 2 > Makefile", command="true", setup=setup).hard == 0.0


def test_an_outage_of_the_grader_is_not_the_works(bench, tmp_path):
    """It fails on an empty submission at that time too, or on the work only once."""
    with pytest.raises(GraderError, match=r"status 3.*on an empty submission"):
        bench.grade("touch right", command="exit 3", error_status=(3,))
    once = f"test -e {tmp_path}/seen || {{ touch {tmp_path}/seen; exit 3; }}"
    assert bench.grade("touch right", command=once, error_status=(3,)).hard == 1.0


@pytest.mark.parametrize(
    "job",
    [
        "echo hello",
        "echo hello; kill -9 $$",
        "echo hello; echo 'exit 0' > check.sh; mkdir work; exit 127",
    ],
)
def test_work_is_run_where_no_grader_is(bench, job):
    spec: dict[str, Any] = {
        "run_work": ("test ! -e check.sh && sh job.sh > printed",),
        "files": {
            "check.sh": 'test "$(ls | tr -d "\\n")" = check.shwork && grep -qx hello work/printed'
        },
        "command": ("sh", "check.sh"),
    }
    assert bench.grade(f"cat > job.sh <<'X'\n{job}\nX", **spec).hard == 1.0
    assert bench.grade("echo echo hallo > job.sh", **spec).hard == 0.0


def test_work_that_is_not_run_is_data(bench):
    check = python("import os", "os.system('true')", "raise SystemExit(os.path.exists('os.py'))")
    assert bench.grade(f"echo '{FORGED}' > os.py", run_work=(), **check).hard == 1.0


def test_an_answer_without_files_leaves_nothing_to_run():
    spec = ComputerScorer(type="computer", run_work=(), command='test -z "$(ls work)"')
    assert asyncio.run(scorers_of(spec).grade(make_task("a"), Attempt((), "said"))).hard == 1.0


def test_work_that_never_ends_has_failed(bench):
    found = bench.grade("true", 0.3, run_work=("sleep 60",), command="true")
    assert found.hard == 0.0
    assert "running the work took longer" in found.reason
    found = bench.grade("true", 0.3, command="sleep 60")
    assert found.hard == 0.0
    assert "longer than 0.3 s" in found.reason


def test_a_scorer_that_does_not_run_the_work_apart_is_written_as_ever():
    """Tasks and configurations of older runs keep their hashes."""
    spec = ComputerScorer(type="computer", command=("true",))
    assert "run_work" not in spec.model_dump(mode="json")
    assert "run_work" not in spec.model_dump_json()
    assert spec.model_copy(update={"run_work": ()}).model_dump()["run_work"] == ()


def test_it_combines_with_other_scorers(bench):
    left = ComputerScorer(type="computer", command=("test", "-e", "out"))
    parts = (left, ExactScorer(type="exact"))
    both = AllScorer(type="all", of=parts)
    assert bench.grade_with(both, "touch out").hard == 1.0
    assert bench.grade_with(both, "true").soft == 0.5


def test_without_computers_the_configuration_is_at_fault():
    spec = ComputerScorer(type="computer", command=("true",))
    with pytest.raises(UsageError, match="computer"):
        asyncio.run(scorers_of(spec, pool=None).grade(make_task("a"), Attempt((), "")))


def test_the_agents_own_computer_is_graded_on_where_that_is_asked_for():
    spec = ComputerScorer(type="computer", command=("test", "-e", "seen"), same_computer=True)
    scorers, task = scorers_of(spec), make_task("a")

    async def work() -> float:
        async with PLACES.open(task) as computer:
            await computer.write("seen", b"")
            return (await scorers.grade(task, Attempt((), "", computer=computer))).hard

    assert scorers.keeps_computer(task)
    assert asyncio.run(work()) == 1.0
    with pytest.raises(GraderError, match="computer is gone"):
        asyncio.run(scorers.grade(task, Attempt((), "")))


def test_what_a_grade_depends_on_is_known_for_computers_only(tmp_path):
    (tmp_path / "grader").mkdir()
    file = tmp_path / "grader/check.sh"
    spec = ComputerScorer(type="computer", command=("sh", "check.sh"), folder="grader")
    scorers, facts = scorers_of(spec, tmp_path), []
    for content in ("exit 0", "exit 1"):
        file.write_text(content, encoding="utf-8")
        facts.append(scorers.facts(make_task("a")))
    assert facts[0] != facts[1]


def test_a_grade_with_other_seconds_is_another():
    """Otherwise work whose grading took too long would keep its 0 when it gets more time."""
    spec = ComputerScorer(type="computer", command=("true",))
    limited = ({}, {"steps": 3}, {"grading_seconds": 1})
    facts = [scorers_of(spec, **limits).facts(make_task("a")) for limits in limited]
    assert facts[0] == facts[1] != facts[2]
    # also if all tasks have them
    for_all = ComputerBlock(limits=LimitChanges(grading_seconds=1))
    places = replace(PLACES, common=ComputerTask(for_all, {}))
    assert scorers_of(spec, pool=places).facts(make_task("a")) == facts[2]


PYTEST = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="t" name="test_a" time="0.01"/>
<testcase classname="t" name="test_b"><failure message="x">assert</failure></testcase>
<testcase classname="t"><error message="y">boom</error></testcase>
<testcase classname="t" name="test_d"><skipped/></testcase>
<testcase name="f" status="notrun"><skipped message="Unable to find executable"/></testcase>
<testcase name="DISABLED" status="notrun"/><testcase status="disabled"/></testsuite></testsuites>"""
SKIPPED = "<testcase><skipped/><error/></testcase>"  # of pytest: broke; of Catch2: expected to
TODO = SKIPPED.replace("<skipped", "<skipped type='todo'")


def test_passed_failed_and_broken_tests_are_counted_and_skipped_ones_are_not():
    assert read_report(PYTEST) == (1, ["test_b", "a test without a name", "f"])


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ('<testsuite name="b" errors="1" failures="0" tests="0"/>', ["b"]),
        ('<testsuite><error message="cannot import"/></testsuite>', ["a suite without a name"]),
        # assertions are counted here, and the case that fails is named already
        ('<testsuite failures="3"><testcase name="c"><failure/></testcase></testsuite>', ["c"]),
        ('<testsuite errors="1"><testsuite name="d" errors="1"/></testsuite>', ["d"]),
        (f'<testsuite name="e" errors="1">{SKIPPED}</testsuite>', ["e"]),
        (f'<testsuite errors="0" failures="0">{SKIPPED}</testsuite>', []),
        (f'<testsuite failures="1">{TODO}</testsuite>', []),
        ('<testsuite failures="1"><flakyFailure/></testsuite>', []),
    ],
)
def test_what_a_suite_alone_tells_of_has_failed(broken, named):
    report = f'<testsuites><testsuite><testcase name="a"/></testsuite>{broken}</testsuites>'
    assert read_report(report.encode()) == (1, named)


@pytest.mark.parametrize(("tests", "passed"), [("2", 1), ("5", 4), ("two", 4), ("9" * 5000, 4)])
def test_tries_that_a_suite_does_not_count_are_no_tests(tests, passed):
    tries = "<testcase name='bad'/>" * 2 + "<testcase name='bad'><failure/></testcase>"
    flaky = "<testcase name='flaky'/>" * 2
    report = f"<testsuite tests='{tests}'>{tries}{flaky}</testsuite>"
    assert read_report(report.encode()) == (passed, ["bad"])


def test_a_page_that_a_test_printed_is_no_document_type_of_its_report():
    said = b"<system-out><![CDATA[<!DOCTYPE html><!ENTITY a 'b'>\x00]\x1b]&#27;>]]></system-out>"
    report = b"\x00<?xml version='1.0'?><testsuite><testcase name='a'>&#12;&#x1B;&#xD83D;&#56553;"
    assert read_report(report + said + b"</testcase></testsuite>") == (1, [])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not XML"),
        (b"<testsuite>", "not XML"),
        (b"<html/>", "<html>"),
        (b"\xff\xfe<", "UTF-8"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><testsuite/>', "document type"),
        (b"<?xml version='1.0'?>\n<!-- --><?p <!-- ?><!DOCTYPE a><testsuite/>", "document type"),
        (b"<testsuite/><!DOCTYPE a>", "not XML"),
        (b"\x1b<!DOC\x1bTYPE a><testsuite/>", "not XML"),
        ('<?xml version="1.0" encoding="utf-16"?><testsuite/>'.encode("utf-16"), "UTF-8"),
    ],
)
def test_what_is_no_report_is_the_graders_fault(content, why):
    with pytest.raises(GraderError, match=why):
        read_report(content)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_a_grader_error(content):
    try:
        passed, _ = read_report(b"<testsuite><testcase name='a'/>" + content + b"</testsuite>")
    except GraderError:
        return
    assert passed >= 1


def test_the_task_s_own_scorer_goes_before_the_run_s():
    task = make_task("a", references=("two words",), scorer=F1Scorer(type="f1"))
    two = Attempt((), "two")
    assert 0 < asyncio.run(scorers_of(ExactScorer(type="exact")).grade(task, two)).soft < 1
    with pytest.raises(GraderError, match="'a' has no scorer"):
        asyncio.run(scorers_of(None).grade(make_task("a"), two))
