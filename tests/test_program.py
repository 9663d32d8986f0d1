import asyncio
import sys
import time
from pathlib import Path

import pytest

from skillopt_ci.program import Ended, run_program, signal_name, tail


def run(folder: Path, code: str, timeout: float = 30.0, stdin: str = "") -> Ended:
    (folder / "stdin").write_text(stdin, encoding="utf-8")
    work = run_program(
        [sys.executable, "-c", code],
        stdin=folder / "stdin",
        folder=folder,
        work=folder,
        cwd=folder,
        environ={},
        timeout=timeout,
    )
    return asyncio.run(work)


def test_status_and_both_outputs_are_told(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read()); print('why', file=sys.stderr); sys.exit(3)"
    ended = run(tmp_path, code, stdin="question")
    assert ended.status == 3
    assert tail(ended.output, 100) == "question\n"
    assert tail(ended.errors, 100) == "why\n"


def test_only_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    assert tail(run(tmp_path, "print('a' * 50 + 'end')").output, 4) == "end\n"


def test_a_signal_has_its_name(tmp_path: Path) -> None:
    ended = run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert signal_name(ended.status) == "SIGTERM"
    assert signal_name(-1000) == "signal 1000"


def test_grandchildren_end_with_the_program(tmp_path: Path) -> None:
    child = "import time; time.sleep(1); open('alive', 'w')"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}])"
    began = time.monotonic()
    assert run(tmp_path, code).status == 0
    assert time.monotonic() - began < 1
    assert not (tmp_path / "alive").exists()


def test_a_program_over_its_time_is_killed(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        run(tmp_path, "import time; time.sleep(60)", timeout=0.2)
