"""The installed command, as people and CI jobs run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import forked

pytestmark = pytest.mark.end_to_end

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SCRIPT = Path(sys.executable).parent / "skillopt-ci"
SMALL = ("-o", "tasks.limit=12", "-o", "train.num_epochs=1", "-o", "train.batch_size=6")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command line below the test's folder, under a git that knows nobody."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TMPDIR": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
    }

    def start(
        folder: Path, *words: str | Path, code: int = 0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        env = {**environ, **env}
        if words[0] == "skillopt-ci":
            done = forked.run(["-m", "skillopt_ci", *words[1:]], cwd=folder, env=env)
        else:
            done = subprocess.run(
                words, cwd=folder, env=env, capture_output=True, text=True, check=False
            )
        assert done.returncode == code, done.stderr
        return done

    return start


def test_quickstart_needs_no_identity_no_folder_and_no_network(run, tmp_path):
    proxy = "http://127.0.0.1:9"
    done = run(tmp_path, SCRIPT, "quickstart", *SMALL, HTTPS_PROXY=proxy, HTTP_PROXY=proxy)
    (folder,) = (tmp_path / "home").glob("skillopt-quickstart-*")
    assert f"  cd {folder}\n" in done.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "home"]


def test_what_init_writes_is_valid_and_can_be_trained(run, tmp_path):
    folder = tmp_path / "mine"
    run(tmp_path, "git", "init", "--quiet", "--initial-branch=main", folder)
    run(folder, "git", "config", "user.name", "Ada")
    run(folder, "git", "config", "user.email", "ada@example.org")
    run(folder, "skillopt-ci", "init", "--yes", "--provider", "simulated")
    run(folder, "git", "add", ".")
    run(folder, "git", "commit", "--quiet", "-m", "Set up training")
    assert "Ready to train" in run(folder, "skillopt-ci", "check", "--probe").stdout
    step = json.loads(run(folder, "skillopt-ci", "step", "--json").stdout)
    assert step["commit"] == run(folder, "git", "rev-parse", "skillopt/mine").stdout.strip()
    assert re.search(r"last step +1 ", run(folder, "skillopt-ci", "status").stdout)


def test_a_bare_clone_elsewhere_reads_the_whole_run(run, tmp_path):
    run(tmp_path, "skillopt-ci", "-q", "quickstart", "made", *SMALL)
    url = (tmp_path / "made").as_uri()
    run(tmp_path, "git", "clone", "--quiet", "--depth=1", "--single-branch", url, "read")
    for name in ("tasks", "skills"):
        shutil.rmtree(tmp_path / "read" / name)
    (tmp_path / "read" / "skillopt.yaml").unlink()
    assert re.search(
        r"^last step +2 ", run(tmp_path / "read", "skillopt-ci", "status").stdout, re.MULTILINE
    )
    assert run(tmp_path / "read", "skillopt-ci", "log").stdout.count("\n") == 7
    assert "+++ b/SKILL.md" in run(tmp_path / "read", "skillopt-ci", "show", "1").stdout


@pytest.mark.skipif(shutil.which("script") is None, reason="needs the script command")
@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_is_given_back_with_its_cursor(run, tmp_path, environ, coloured):
    command = " ".join([str(SCRIPT), "-v", "quickstart", "made", *SMALL])
    env = {"TERM": "xterm-256color", "COLUMNS": "80", **environ}
    drawn = run(tmp_path, "script", "--quiet", "--return", "-c", command, "/dev/null", **env).stdout
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h") > 0
    assert ("\x1b[32m" in drawn) is coloured
    assert "Report: file://" in drawn
