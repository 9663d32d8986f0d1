import asyncio
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from computer_kinds import assert_gone
from programs import write_program
from virtual_time import out_of_time, out_of_time_whenever

from skillopt_ci import confinement
from skillopt_ci.config.scorers import CommandScorer, PythonScorer
from skillopt_ci.errors import UsageError
from skillopt_ci.program import visible_environ
from skillopt_ci.scorers.base import FallibleScorer, GraderError, Score
from skillopt_ci.scorers.code import Functions, call_function, load_function, run_command
from skillopt_ci.tasks.task import TaskFile

pytestmark = pytest.mark.integration


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code), *arguments]


def test_material_is_there_for_the_program(grade, make_task):
    task = make_task("ref", metadata={"k": "ä"}, files=(TaskFile("in/a.txt", "b\r\n"),))
    code = r"""
        import json, pathlib, sys
        answer, response, task, folder = map(pathlib.Path, sys.argv[1:])
        assert answer.read_text() == "42"
        assert sys.stdin.read() == response.read_text() == "so <answer>42</answer>"
        record = json.loads(task.read_text(encoding="utf-8"))
        assert (record["id"], record["references"]) == ("t", ["ref"])
        assert record["metadata"] == {"k": "ä"}
        assert record["messages"] == [{"role": "user", "content": "What is it?"}]
        assert (folder / "files/in/a.txt").read_bytes() == b"b\r\n"
    """
    command = python(code, "{answer}", "{response}", "{task}", "{dir}")
    score = grade("command", "so <answer>42</answer>", task=task, command=command, answer="tag")
    assert (score.reason, score.answer) == ("exit status 0", "42")


def test_half_of_a_surrogate_pair_is_graded_as_a_question_mark(grade):
    code = "import sys; sys.exit(open(sys.argv[1]).read() != 'x?' or sys.stdin.read() != 'x?')"
    assert grade("command", "x\ud800", command=python(code, "{answer}")).hard == 1


def test_response_is_never_read_by_a_shell(grade, tmp_path):
    attack = f"$(touch {tmp_path}/owned); `touch {tmp_path}/owned`"
    grade("command", attack, command=["true", "{answer}"])
    assert not (tmp_path / "owned").exists()


def test_program_sees_only_the_allowed_environment():
    environ = {"PATH": "p", "HOME": "h", "LANG": "l", "API_KEY": "secret", "EXTRA": "e"}
    spec = CommandScorer(type="command", command=("true",), env=("EXTRA", "ABSENT"))
    seen = visible_environ(environ, spec.env)
    assert seen == {"PATH": "p", "HOME": "h", "LANG": "l", "EXTRA": "e"}


def test_environment_reaches_the_program(grade):
    code = "import os; raise SystemExit('API_KEY' in os.environ)"
    environ = {"PATH": os.environ["PATH"], "API_KEY": "secret"}
    assert grade("command", "x", environ=environ, command=python(code)).hard == 1
    assert grade("command", "x", environ=environ, command=python(code), env=["API_KEY"]).hard == 0


def test_end_of_stderr_is_the_reason(grade):
    code = "import sys; sys.exit('x' * 9999 + ' wrong\\ntotal')"
    score = grade("command", "x", command=python(code))
    assert (score.reason[-14:], len(score.reason)) == ("xx wrong total", 300)


@pytest.mark.parametrize(
    ("printed", "hard_at", "hard", "soft"), [("0.5", 1, 0, 0.5), ("note\n0.75\n\n", 0.7, 1, 0.75)]
)
def test_last_printed_line_is_the_score(grade, printed, hard_at, hard, soft):
    command = python(f"print({printed!r})")
    score = grade("command", "x", command=command, score="stdout", hard_at=hard_at)
    assert (score.hard, score.soft) == (hard, soft)


@pytest.mark.parametrize("printed", ["", "high", "1.5", "-0.1", "nan", "inf"])
def test_output_that_is_no_score_is_a_grader_error(grade, printed):
    with pytest.raises(GraderError, match=r"expected .exit status 0.: it wrote no error"):
        grade("command", "x", command=python(f"print({printed!r})"), score="stdout")


def test_error_status_and_death_by_signal_are_grader_errors(grade):
    code = "import sys; print('no licence', file=sys.stderr); sys.exit(3)"
    with pytest.raises(GraderError, match="error status 3: no licence"):
        grade("command", "x", command=python(code), error_status=[3])
    with pytest.raises(GraderError, match="killed by SIGSEGV: it said nothing"):
        grade("command", "x", command=python("import os; os.kill(os.getpid(), 11)"))


#: Touches a file in the root, so that a test need not wait for the time that is left.
BEGIN = "open('begun', 'w').close()"
RUN_IT = "import sys; code = open(sys.argv[1]).read(); exec(code); print(0.25)"


@pytest.mark.parametrize(
    "answer", ["0/0", "import os; os.kill(os.getpid(), 9)", "exit(126)", f"{BEGIN}\nwhile 1: pass"]
)
def test_an_answer_that_makes_the_grader_fail_scores_0(grade, tmp_path, answer):
    keys = {"command": python(RUN_IT, "{answer}"), "score": "stdout", "timeout": 60}
    assert grade("command", "", **keys).soft == 0.25
    score = grade("command", answer, **keys, hangs_after=tmp_path / "begun")
    assert (score.hard, score.soft, score.answer) == (0, 0, answer)
    assert "fails on this work, not on an empty submission" in score.reason


def test_a_grader_that_fails_once_is_asked_again(grade, tmp_path):
    code = "import os, sys; sys.exit(0 if os.path.exists('seen') else open('seen', 'w') and 126)"
    assert grade("command", "right", command=python(code)).hard == 1


@pytest.mark.parametrize("confined", [False, True])
def test_program_that_cannot_be_started_is_a_grader_error(grade, tmp_path, confined):
    confinement.confine(tmp_path, os.environ, wanted=confined)
    write_program(tmp_path / "a=b", "[ -x of-windows ]")
    write_program(tmp_path / "of-windows", "#!/bin/sh\r\nexit 0\r\n")
    assert grade("command", "x", command=["./a=b"]).hard == 1
    for program in ("no-such-program", "./of-windows"):
        with pytest.raises(GraderError, match=r"cannot be run|ended with error status 127"):
            grade("command", "x", command=[program])


def family(pids: Path, *, hangs: bool) -> list[str]:
    """A shell with a child that sleeps; both ids are written to ``pids``."""
    return ["sh", "-c", f'sleep 600 & echo $$ $! > "$0"{"; wait" if hangs else ""}', str(pids)]


def test_no_child_outlives_a_timeout_or_the_verdict(grade, tmp_path, make_task):
    pids = tmp_path / "pids"
    spec = CommandScorer(type="command", command=tuple(family(pids, hangs=True)), timeout=60)
    work = run_command(spec, tmp_path, os.environ, make_task(), "x", "x")
    with pytest.raises(GraderError, match="took longer than 60 s"):
        asyncio.run(out_of_time(work, lambda: pids.exists() and pids.read_text().endswith("\n")))
    assert_gone(pids)
    assert grade("command", "x", command=family(pids, hangs=False)).hard == 1
    assert_gone(pids)


def test_cancelling_kills_the_program(tmp_path, make_task):
    fifo, task = tmp_path / "fifo", make_task()
    os.mkfifo(fifo)
    code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    spec = CommandScorer(type="command", command=tuple(python(code, str(fifo))))

    async def run() -> str:
        grading = asyncio.create_task(run_command(spec, tmp_path, os.environ, task, "x", "x"))
        pid = await asyncio.to_thread(fifo.read_text)
        grading.cancel()
        await asyncio.wait([grading])
        return pid

    (tmp_path / "pids").write_text(asyncio.run(run()))
    assert_gone(tmp_path / "pids")


@pytest.fixture(autouse=True)
def _import_path(tmp_path: Path):
    yield
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]


def returning(write: Callable[[str, str], Path], expression: str) -> str:
    write("graders/g.py", f"def grade(task, answer):\n    return {expression}\n")
    return "graders/g.py:grade"


def test_result_is_the_score(grade, write):
    entry = returning(write, "eval(answer)")
    for result, hard, soft in (
        ("True", 1, 1),
        ("False", 0, 0),
        ("0.5", 0, 0.5),
        ("1", 1, 1),
        ("{'soft': 0.5, 'hard': 1}", 1, 0.5),
        ("{'hard': True}", 1, 1),
        ("{'soft': 1.0, 'reason': 'good'}", 1, 1),
        ("task['references'] == ['42'] and task['id'] == 't'", 1, 1),
    ):
        score = grade("python", f"<answer>{result}</answer>", "42", entry=entry, answer="tag")
        assert (score.hard, score.soft) == (hard, soft), result
    assert grade("python", "0.5", entry=entry, hard_at=0.5).hard == 1
    assert grade("python", "{'soft': 0, 'reason': 'too\\nlong'}", entry=entry).reason == "too long"
    assert "gave 0" in grade("python", "{'soft': 0, 'reason': None}", entry=entry).reason


def test_a_function_sees_no_variable_that_a_model_s_key_is_in(grade, write, monkeypatch):
    monkeypatch.setattr(confinement, "_closed", True)
    monkeypatch.setattr(confinement, "_withheld", {})
    for name in ("HOUSE_MODEL", "HOUSE_API_KEY", "HOUSE_COLOUR"):
        monkeypatch.setenv(name, "blue")
    environ = dict(os.environ)
    confinement.withhold(["HOUSE_MODEL"])
    seen = "'reason': ' '.join(one for one in __import__('os').environ if 'HOUSE' in one)"
    entry = returning(write, f"{{'soft': 1, {seen}}}")
    assert grade("python", "x", entry=entry, environ=environ).reason == "HOUSE_COLOUR"


def test_result_that_is_no_score_is_a_grader_error(grade, write, make_task):
    entry = returning(write, "eval(task['metadata']['returned'])")
    for returned, message in (
        ("1.5", "returned 1.5, expected a score from 0 to 1"),
        ("float('nan')", "returned nan"),
        ("None", "returned None"),
        ("'1'", "returned '1'"),
        ("{'score': 1}", "the keys 'score'; expected 'soft', 'hard' or both"),
        ("{'reason': 'x'}", "the keys 'reason'; expected"),
    ):
        with pytest.raises(GraderError, match=message):
            grade("python", "x", entry=entry, task=make_task(metadata={"returned": returned}))


@pytest.mark.parametrize("call", ["1/0", "exit(0)", "__import__('json').loads('')"])
def test_exception_is_a_grader_error_with_its_place(grade, write, call):
    with pytest.raises(GraderError, match=r"g.py:grade: (Zero|System|JSON).*: .* \(.*g.py:2\)"):
        grade("python", "x", entry=returning(write, call))


@pytest.mark.parametrize("answer", ["1 / 0", "exit(0)", "'no score'", f"[{BEGIN}, Event().wait()]"])
def test_an_answer_that_makes_the_function_fail_scores_0(grade, write, tmp_path, answer):
    entry = returning(write, "eval(answer or '0.5', {'Event': __import__('threading').Event})")
    assert grade("python", "", entry=entry).soft == 0.5
    score = grade("python", answer, entry=entry, timeout=60, hangs_after=tmp_path / "begun")
    assert (score.hard, score.soft) == (0, 0)
    assert "fails on this work, not on an empty submission" in score.reason


#: Other tests, which may run at the same time, have folders of that name, too.
FORGE = f"""
for folder in glob("{tempfile.gettempdir()}/skillopt-ci-*-{os.getpid()}-*_worker-*/*"):
    with open(folder + "/result.json", "w") as file:
        file.write("[" * 99_999)
os._exit(0)
"""
SPEAK = """
for end in glob(f"/proc/{os.getppid()}/fd/*"):
    with suppress(OSError):  # pipes alone: newer versions of libffi keep their own file open
        "pipe:" in os.readlink(end) and os.write(os.open(end, os.O_WRONLY | os.O_NONBLOCK), b"x\\n")
time.sleep(60)
"""


@pytest.mark.parametrize(
    "answer",
    [
        "os.kill(os.getppid(), signal.SIGKILL)",
        f"{BEGIN}; os.kill(os.getppid(), signal.SIGSTOP)",
        FORGE,
        SPEAK,
    ],
    ids=["kill", "stop", "forge", "speak"],
)
def test_an_answer_that_attacks_its_worker_harms_no_other(
    tmp_path, write, make_task, monkeypatch, answer
):
    monkeypatch.setattr("skillopt_ci.worker._PATIENCE", 0.2)
    code = """
        import os, signal, time
        from contextlib import suppress
        from glob import glob

        def grade(task, answer):
            exec(answer)
            return True
        """
    write("g.py", textwrap.dedent(code))

    async def graded(*answers: str) -> list[Score]:
        with closing(Functions(os.environ)) as functions:
            scores = []
            for each in answers:
                spec = PythonScorer(type="python", entry="g.py:grade", timeout=60)
                scorer = FallibleScorer(spec, partial(call_function, spec, tmp_path, functions))
                scores.append(await scorer(make_task(), each))
            return scores

    scores = asyncio.run(out_of_time_whenever(graded("pass", answer, "pass"), tmp_path / "begun"))
    assert [one.hard for one in scores] == [1, 0, 1]


def test_module_of_the_repository_is_importable(tmp_path, write):
    write("grading_pkg_for_test/inner.py", "def grade(task, answer):\n    return True\n")
    assert load_function("grading_pkg_for_test.inner:grade", tmp_path)({}, "") is True


def test_file_may_import_its_neighbours_and_hold_dataclasses(tmp_path, write):
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


def test_repository_cannot_take_the_place_of_a_library(tmp_path, write):
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
        ("grade = 1", "must be a plain function"),
    ],
)
def test_function_that_cannot_be_loaded_is_explained(tmp_path, write, code, message):
    write("g.py", code)
    with pytest.raises(UsageError, match=message):
        load_function("g.py:grade", tmp_path)


@pytest.mark.parametrize("entry", ["nope.py:grade", "no.such.module:grade"])
def test_missing_module_is_explained(tmp_path, entry):
    with pytest.raises(UsageError, match="cannot be imported"):
        load_function(entry, tmp_path)
