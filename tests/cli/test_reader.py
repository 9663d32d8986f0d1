from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

GitText = Callable[..., str]


def test_the_configuration_names_the_run_and_the_repository(
    cli: Cli, trained: Path, tmp_path: Path
) -> None:
    done = cli(tmp_path, "status", "--config", trained / "skillopt.yaml")
    assert "Run quickstart" in done.out


def test_a_configuration_that_was_named_must_be_there(cli: Cli, trained: Path) -> None:
    done = cli(trained, "status", "--config", "other.yaml")
    assert done.code == 2
    assert "other.yaml" in done.err


def test_several_runs_without_a_configuration_are_listed(
    cli: Cli, done: Path, git: GitText
) -> None:
    (done / "skillopt.yaml").unlink()
    git(done, "branch", "skillopt/other", "main")
    told = cli(done, "status")
    assert told.code == 2
    assert "these runs are here: other, quickstart" in told.err
    assert cli(done, "status", "--run", "quickstart").code == 0


def test_no_run_at_all_is_said(cli: Cli, fresh: Path) -> None:
    (fresh / "skillopt.yaml").unlink()
    told = cli(fresh, "log")
    assert told.code == 2
    assert "no run has started here" in told.err


def test_an_option_goes_before_the_configuration(cli: Cli, trained: Path) -> None:
    told = cli(trained, "status", "--run", "nightly")
    assert told.code == 2
    assert "Run 'nightly' has not started" in told.err


def test_outside_of_a_repository_it_is_said_so(cli: Cli, tmp_path: Path) -> None:
    told = cli(tmp_path, "status")
    assert told.code == 2
    assert "not inside a git repository" in told.err


def test_a_merged_run_is_read_from_base(cli: Cli, done: Path, git: GitText) -> None:
    git(done, "merge", "--quiet", "--ff-only", "skillopt/quickstart")
    git(done, "branch", "--delete", "--force", "skillopt/quickstart")
    (done / "skillopt.yaml").unlink()
    assert re.search(r"last step +2 ", cli(done, "status").out)
