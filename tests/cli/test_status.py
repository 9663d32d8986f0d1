from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_the_run_at_a_glance(cli: Cli, trained: Path) -> None:
    done = cli(trained, "status")
    assert done.code == 0
    assert done.out.startswith("Run quickstart (simulated models)\n")
    assert "last step   2 (epoch 1)\n" in done.out
    assert done.err == ""


def test_json_is_one_object(cli: Cli, trained: Path, git: Callable[..., str]) -> None:
    found = cli(trained, "status", "--json").json
    assert found["commit"] == git(trained, "rev-parse", "skillopt/quickstart")
    assert (found["run"], found["step"], found["simulated"]) == ("quickstart", 2, True)


@pytest.mark.parametrize(
    "options", [(), ("--depth=1",), ("--depth=1", "--single-branch", "--branch=main")]
)
def test_any_clone_without_configuration_or_tasks_will_do(
    cli: Cli, clone: Callable[..., Path], options: tuple[str, ...]
) -> None:
    folder = clone(*options)
    for path in [folder / "skillopt.yaml", *folder.glob("tasks/*")]:
        path.unlink()
    done = cli(folder, "status")
    assert (done.code, done.err) == (0, "")
    assert "last step   2" in done.out


def test_reading_leaves_no_trace(cli: Cli, done: Path, git: Callable[..., str]) -> None:
    before = git(done, "for-each-ref"), git(done, "status", "--porcelain=v2")
    for command in (("status",), ("log",), ("show", "1")):
        assert cli(done, *command).code == 0
    assert (git(done, "for-each-ref"), git(done, "status", "--porcelain=v2")) == before


def test_a_run_that_has_not_started_says_how_to_start_it(cli: Cli, untrained: Path) -> None:
    done = cli(untrained, "status")
    assert done.code == 2
    assert "Run 'quickstart' has not started" in done.err
    assert "skillopt-ci step" in done.err
