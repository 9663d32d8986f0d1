import asyncio
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from computer_kinds import eventually, is_running, processes_with
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci import program
from skillopt_ci.program import Capture, CommandResult, run_program, signal_name


def run(folder: Path, code: str, timeout: float = 30.0, stdin: str = "") -> CommandResult:
    work = run_program(
        [sys.executable, "-c", code],
        stdin=stdin.encode(),
        work=folder,
        cwd=folder,
        environ={},
        timeout=timeout,
        output_bytes=40,
    )
    return asyncio.run(work)


def test_status_both_outputs_and_the_name_of_a_signal_are_told(tmp_path):
    code = "import sys; print(sys.stdin.read()); print('why', file=sys.stderr); sys.exit(3)"
    done = run(tmp_path, code, stdin="question")
    assert (done.exit_code, done.signal) == (3, 0)
    assert (done.stdout, done.stderr) == ("question\n", "why\n")
    assert run(tmp_path, "print('a' * 50 + 'end')").out.tail(4) == "end\n"
    done = run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert signal_name(done.signal) == "SIGTERM"
    assert signal_name(1000) == "signal 1000"


def test_grandchildren_end_with_the_program(tmp_path):
    code = "import subprocess; print(subprocess.Popen(['/bin/sleep', '600']).pid)"
    done = run(tmp_path, code)
    assert done.exit_code == 0
    assert eventually(lambda: not is_running(int(done.stdout)))


def test_a_tree_is_killed_though_an_interrupt_comes_between(monkeypatch):
    def interrupted(_: int) -> set[int]:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "_descendants", interrupted)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
        with pytest.raises(KeyboardInterrupt):
            program.kill_tree(child.pid)
        assert child.wait(60) == -signal.SIGKILL


def test_a_program_over_its_time_is_killed(tmp_path):
    with pytest.raises(TimeoutError):
        run(tmp_path, "import time; time.sleep(60)", timeout=0.2)


RUN_ON = """\
import asyncio, os
from pathlib import Path
from skillopt_ci.confinement import confine, current
from skillopt_ci.program import run_program

here = Path.cwd()
confine(here, dict(os.environ))
print(current().kind, flush=True)
words = ["/bin/sh", "-c", f": > begun; sleep 100; : {os.environ['MARKER']}"]
asyncio.run(
    run_program(
        words, stdin=b"", work=here, cwd=here, environ=dict(os.environ), timeout=600, output_bytes=9
    )
)
"""


@pytest.mark.integration
def test_a_confined_program_ends_with_the_process_that_started_it(tmp_path):
    marker = uuid.uuid4().hex
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MARKER": marker}
    words = [sys.executable, "-c", RUN_ON]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environ, cwd=tmp_path) as running:
        assert running.stdout is not None
        confined = running.stdout.readline().decode().strip()
        begun = eventually((tmp_path / "begun").exists)
        running.kill()
    assert begun
    assert confined == "none" or eventually(lambda: not processes_with(marker))


CHUNKS = st.lists(st.binary(max_size=40), max_size=30)


def captured(limit: int, chunks: list[bytes]) -> Capture:
    capture = Capture(limit)
    for chunk in chunks:
        capture.feed(chunk)
    return capture


@given(st.integers(0, 200), CHUNKS)
def test_beginning_and_end_are_kept_however_they_come(limit, chunks):
    everything, capture = b"".join(chunks), captured(limit, chunks)
    whole = captured(limit, [everything])
    assert (capture.content(), capture.text()) == (whole.content(), whole.text())
    assert capture.total == len(everything)
    assert capture.truncated == (len(everything) > limit)
    if not capture.truncated:
        assert capture.content() == everything
        assert capture.text() == everything.decode(errors="replace")
    else:
        assert len(capture.content()) == limit
        assert everything.startswith(capture.content()[: (limit + 1) // 2])
        assert everything.endswith(capture.content()[(limit + 1) // 2 :])
        assert f"{len(everything) - limit} bytes left out" in capture.text()


def test_memory_does_not_grow_with_the_stream():
    capture = captured(100, [b"x" * 65_536] * 50)
    assert len(capture._tail) < 200_000
    assert capture.total == 50 * 65_536
