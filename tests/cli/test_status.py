from __future__ import annotations

import re
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
    assert re.search(r"last step +2 \(epoch 1\)\n", done.out)
    assert re.search(r"  target +\d+ calls", done.out)
    assert re.search(r"    selection +\d+ calls", done.out)
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
    assert re.search(r"last step +2", done.out)


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


def test_what_is_next_is_said_where_the_configuration_is(cli: Cli, trained: Path) -> None:
    assert re.search(r"^next +no step: all 2 are done$", cli(trained, "status").out, re.MULTILINE)
    more = cli(trained, "status", "-o", "train.num_epochs=2")
    assert re.search(r"^next +step 3 of 4$", more.out, re.MULTILINE)


def test_a_candidate_that_waits_is_in_flight(cli: Cli, done: Path, git: Callable[..., str]) -> None:
    halfway = cli(done, "step", "--until-candidate", "-o", "train.num_epochs=2")
    assert halfway.code == 0, halfway.err
    commit = git(done, "rev-parse", "skillopt-candidate/quickstart")
    text = f"step 3: its candidate {commit[:10]} waits to be measured\n"
    assert text in cli(done, "status").out
    found = cli(done, "status", "--json").json
    assert found["in_flight"] == {"what": "step 3", "commit": commit}
