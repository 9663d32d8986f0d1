from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.scaffold import class_name
from skillopt_ci.git.process import Git

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def passes(folder: Path, *places: str) -> bool:
    """Whether the tests of ``folder`` pass, run as a person would."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *places]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return True


def test_the_environment_passes_its_test_and_validates_at_once(cli: Cli, tmp_path: Path) -> None:
    done = cli(tmp_path, "new-env", "Number words")
    assert "wrote     number-words/environment.py" in done.out
    assert cli(tmp_path, "new-env", "jobs", "more/jobs", "--kind", "yaml").code == 0
    assert passes(tmp_path, "number-words", "more/jobs")
    git = Git(tmp_path)
    git.run("init", "--quiet")
    git.run("add", ".")
    git.run("commit", "--quiet", "-m", "Begin")
    for place in ("number-words", "more/jobs"):
        found = cli(tmp_path, "validate", "-c", f"{place}/skillopt.yaml", "--json").json
        wrong = [one for one in found["findings"] if one["level"] == "error"]
        assert all(one["part"].startswith(("model", "computer")) for one in wrong), wrong


def test_a_change_of_the_grading_fails_the_test(cli: Cli, tmp_path: Path) -> None:
    cli(tmp_path, "new-env", "words")
    file = tmp_path / "words" / "environment.py"
    file.write_text(file.read_text().replace("right = answer in", "right = answer not in"))
    with pytest.raises(AssertionError, match="references_solve"):
        passes(tmp_path, "words")


def test_a_change_of_what_a_computer_grades_fails_the_test(cli: Cli, tmp_path: Path) -> None:
    cli(tmp_path, "new-env", "jobs", "--kind", "yaml")
    config = tmp_path / "jobs" / "skillopt.yaml"
    config.write_text(config.read_text().replace("{type: sandbox}", "{type: unconfined}"))
    assert passes(tmp_path, "jobs")
    file = tmp_path / "jobs" / "tasks" / "train.yaml"
    file.write_text(file.read_text().replace("hello\n", "good day\n", 1))
    with pytest.raises(AssertionError, match="test_solutions_solve_their_tasks"):
        passes(tmp_path, "jobs")


def test_what_is_there_stays(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "environment.py").write_text("mine\n")
    found = cli(tmp_path, "new-env", "words", "--json").json
    assert found["left"] == ["environment.py"]
    assert (tmp_path / "words" / "environment.py").read_text() == "mine\n"
    again = cli(tmp_path, "new-env", "words", "--json")
    assert (again.code, again.json["written"]) == (3, [])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("number words", "NumberWords"),
        ("3d maps", "Environment3dMaps"),
        ("task", "MyTask"),
        ("none", "MyNone"),
        ("--", "MyEnvironment"),
        ("über-test", "BerTest"),
    ],
)
def test_any_text_becomes_the_name_of_a_class(text: str, name: str) -> None:
    assert class_name(text) == name
    assert name.isidentifier()
