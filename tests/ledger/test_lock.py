import subprocess
import sys
from pathlib import Path

import pytest

from skillopt_ci.errors import LostRace
from skillopt_ci.ledger.lock import is_held, run_lock

HOLDER = """
import sys
from pathlib import Path
from skillopt_ci.ledger.lock import run_lock
with run_lock(Path(sys.argv[1]), "demo"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_holder_loses_at_once(tmp_path: Path) -> None:
    message = "another skillopt-ci is training run 'demo'"
    with (
        run_lock(tmp_path, "demo"),
        pytest.raises(LostRace, match=message),
        run_lock(tmp_path, "demo"),
    ):
        pass


def test_other_run_is_not_blocked(tmp_path: Path) -> None:
    with run_lock(tmp_path, "demo"), run_lock(tmp_path, "other"):
        assert (tmp_path / "skillopt-ci").is_dir()


def test_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), run_lock(tmp_path, "demo"):
        raise ZeroDivisionError
    with run_lock(tmp_path, "demo"):
        pass


def test_killed_holder_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_held(tmp_path, "demo")
        with pytest.raises(LostRace), run_lock(tmp_path, "demo"):
            pass
        holder.kill()
    with run_lock(tmp_path, "demo"):
        pass


def test_to_ask_who_holds_it_takes_nothing(tmp_path: Path) -> None:
    assert not is_held(tmp_path, "demo")
    assert not (tmp_path / "skillopt-ci").exists()
    with run_lock(tmp_path, "other"), run_lock(tmp_path, "demo"):
        assert is_held(tmp_path, "demo")
    assert not is_held(tmp_path, "demo")
