"""Two runs of one configuration, trained by two processes of one clone at the same time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from skillopt_ci.cli.quickstart import make_repository
from skillopt_ci.ledger.git import Git

pytestmark = pytest.mark.end_to_end

RUNS = """
runs:
  - {run: left, skill: skills/ledger/SKILL.md}
  - {run: right, skill: skills/right/SKILL.md, train: {seed: 7}}
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The quickstart's material for two runs, with a remote."""
    folder = tmp_path / "clone"
    make_repository(folder)
    config = folder / "skillopt.yaml"
    text = config.read_text(encoding="utf-8")
    for old, new in (
        ("run: quickstart\nskill: skills/ledger/SKILL.md\n", ""),
        ("num_epochs: 3", "num_epochs: 1"),
        ("scorer:", "  limit: 16\nscorer:"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    config.write_text(text + RUNS, encoding="utf-8")
    skill = (folder / "skills" / "ledger" / "SKILL.md").read_text(encoding="utf-8")
    (folder / "skills" / "right").mkdir()
    (folder / "skills" / "right" / "SKILL.md").write_text(
        skill.replace("name: ledger", "name: right"), encoding="utf-8"
    )
    git = Git(folder)
    git.run("add", "--all")
    git.run("commit", "--quiet", "-m", "Two skills")
    git.run("init", "--quiet", "--bare", str(tmp_path / "remote.git"))
    git.run("remote", "add", "origin", str(tmp_path / "remote.git"))
    git.run("push", "--quiet", "origin", "HEAD")
    return folder


def step(folder: Path, run: str) -> subprocess.Popen[str]:
    words = ["step", "--run", run, "--json", "--no-progress"]
    return subprocess.Popen(
        [sys.executable, "-m", "skillopt_ci", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_neither_steps_on_the_other(clone: Path) -> None:
    both = [step(clone, "left"), step(clone, "right")]
    told = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    commits = [json.loads(out)["commit"] for out, _ in told]
    git = Git(clone)
    for name, commit, other in (("left", commits[0], "right"), ("right", commits[1], "left")):
        there = git.text("ls-remote", "origin", f"refs/heads/skillopt/{name}").split()[0]
        assert there == commit == git.text("rev-parse", f"skillopt/{name}")
        files = git.text("ls-tree", "-r", "--name-only", commit).splitlines()
        assert f".skillopt/{name}/state.json" in files
        assert f".skillopt/{other}/state.json" not in files


def test_a_command_without_a_name_asks_which_run(clone: Path) -> None:
    words = [sys.executable, "-m", "skillopt_ci", "step"]
    done = subprocess.run(words, cwd=clone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "which run? Name one with --run: left, right" in done.stderr
