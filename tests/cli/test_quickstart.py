from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.init import make_repository
from skillopt_ci.errors import UsageError

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SMALL = ("-o", "tasks.limit=12", "-o", "train.num_epochs=1", "-o", "train.batch_size=6")


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that knows no user, signs with a key that is not there and runs a failing hook."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "reference-transaction"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (hooks / name).chmod(0o755)
    file = tmp_path / "gitconfig"
    file.write_text(f"[commit]\ngpgSign = true\n[core]\nhooksPath = {hooks}\n", encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(file))
    return tmp_path


def test_a_whole_run_is_done_and_explained(cli: Cli, tmp_path: Path) -> None:
    done = cli(tmp_path, "quickstart", "place", *SMALL)
    assert done.code == 0
    assert re.findall(r"^Step \d", done.out, re.MULTILINE) == ["Step 1", "Step 2"]
    headings = re.findall(r"^(.+)\n─+$", done.out, re.MULTILINE)
    assert headings == [
        "The training log is the skills branch",
        "Before and after, on tasks that training never saw",
        "Where to look next",
    ]
    assert "(simulated models)" in done.out


def test_in_a_file_no_line_is_ragged(cli: Cli, tmp_path: Path) -> None:
    done = cli(tmp_path, "quickstart", "place", *SMALL)
    for text in (done.out, done.err):
        assert not re.search(r"[ \t\r]$|\n\n\n|\x1b", text, re.MULTILINE)
    lines = [line for line in done.out.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80


def test_with_json_stdout_has_steps_and_epoch_ends_alone(cli: Cli, tmp_path: Path) -> None:
    done = cli(tmp_path, "quickstart", "place", "--json", *SMALL)
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["kind"], one["step"]) for one in told] == [
        ("step", 1),
        ("step", 2),
        ("slow_update", 2),
    ]
    assert "Where to look next" in done.err


def test_it_works_whatever_git_knows_of_the_user(
    cli: Cli, nobody: Path, git: Callable[..., str]
) -> None:
    done = cli(nobody, "-q", "quickstart", "place", *SMALL)
    assert done.code == 0, done.err
    authors = git(nobody / "place", "log", "--format=%an", "skillopt/quickstart")
    assert set(authors.splitlines()) == {"Quickstart"}


def test_the_commands_to_go_on_with_can_be_copied(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    told = cli(tmp_path, "quickstart", "a place", *SMALL).out
    assert f"  cd '{tmp_path / 'a place'}'\n" in told
    assert 'bin:$PATH"\n' in told


def test_a_folder_in_use_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "skillopt.yaml").write_text("mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match="nothing was written"):
        make_repository(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["skillopt.yaml"]


def test_the_example_starts_from_one_clean_commit(tmp_path: Path, git: Callable[..., str]) -> None:
    make_repository(tmp_path / "place")
    assert git(tmp_path / "place", "rev-list", "--count", "main") == "1"
    assert git(tmp_path / "place", "status", "--porcelain") == ""
