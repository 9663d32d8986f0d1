from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.git.locks import run_lock

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Done


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


MORE = ("-o", "train.num_epochs=2")
ENDS = (*MORE, "-o", "optimizer.use_slow_update=true")
SCHEDULED = (*ENDS, "-o", "schedule.slow_update=scheduled")
TESTED = ("-o", "evaluation.eval_test=true")


@pytest.mark.parametrize(
    ("options", "sentence", "work"),
    [
        ((), "nothing: all 2 steps are done", "done"),
        (MORE, "step 3 of 4, by `step` or `run`", "step"),
        (ENDS, "the end of epoch 1, then step 3 of 4, by `step` or `run`", "epoch_end"),
        (ENDS[2:], "the end of epoch 1, by `step` or `run`", "epoch_end"),
        (
            SCHEDULED,
            "step 3 of 4, by `step` or `run`; the end of epoch 1 is due, by `slow-update`",
            "step",
        ),
        (SCHEDULED[2:], "the end of epoch 1, by `slow-update`", "epoch_end"),
        (TESTED, "the tests and the summary, by `run` or `finish`; all 2 steps are done", "finish"),
    ],
)
def test_what_is_next_is_said_where_the_configuration_is(
    cli: Cli, trained: Path, options: tuple[str, ...], sentence: str, work: str
) -> None:
    assert next_said(cli(trained, "status", *options)) == sentence
    assert cli(trained, "status", "--json", *options).json["next"] == work


def test_a_finished_run_has_nothing_next(cli: Cli, finished: Path) -> None:
    ends = ("-o", "optimizer.use_slow_update=true")
    assert next_said(cli(finished, "status", *TESTED, *ends)) == "nothing: all 2 steps are done"


def test_without_the_configuration_nothing_is_guessed(
    cli: Cli, done: Path, git: Callable[..., str]
) -> None:
    git(done, "rm", "--quiet", "skillopt.yaml")
    assert not re.search("^next ", cli(done, "status").out, re.MULTILINE)
    found = cli(done, "status", "--json").json
    assert (found["next"], found["steps"], found["epoch_end_due"]) == (None, None, None)


def test_a_candidate_that_waits_is_in_flight(cli: Cli, done: Path, git: Callable[..., str]) -> None:
    proposing = ("-o", "model.optimizer.seed=1")  # by which this step has something to propose
    halfway = cli(done, "step", "--until-candidate", *MORE, *proposing)
    assert halfway.code == 0, halfway.err
    commit = git(done, "rev-parse", "skillopt-candidate/quickstart")
    told = cli(done, "status")
    assert f"step 3: its candidate {commit[:10]} waits to be measured\n" in told.out
    assert next_said(told) == "the verdict on it, by `step` or `run`"
    found = cli(done, "status", "--json", *MORE).json
    assert found["in_flight"] == {"what": "step 3", "commit": commit}
    assert (found["next"], found["steps"]) == ("verdict", 4)


def test_the_end_of_an_epoch_in_flight_is_told_by_its_number(
    cli: Cli, ended: Path, git: Callable[..., str]
) -> None:
    found = git(ended, "log", "-1", "--format=%H", "--grep=Epoch-End", "skillopt/quickstart")
    git(ended, "update-ref", "refs/heads/skillopt-candidate/quickstart", found)
    assert re.search(r"^in flight +end of epoch 1: ", cli(ended, "status").out, re.MULTILINE)


def test_a_process_at_work_in_the_clone_is_told(cli: Cli, trained: Path) -> None:
    assert cli(trained, "status", "--json").json["at_work"] is False
    with run_lock(trained / ".git", "quickstart"):
        told = cli(trained, "status")
        assert "another skillopt-ci is training this run in this clone now\n" in told.out
        assert cli(trained, "status", "--json").json["at_work"] is True
    assert "at work" not in cli(trained, "status").out


def test_a_skill_changed_by_hand_is_measured_first(
    cli: Cli, done: Path, git: Callable[..., str]
) -> None:
    git(done, "checkout", "--quiet", "skillopt/quickstart")
    skill = done / "skills/ledger/SKILL.md"
    skill.write_text(f"{skill.read_text(encoding='utf-8')}\nBe brief.\n", encoding="utf-8")
    git(done, "commit", "--quiet", "--all", "--message", "Be brief")
    git(done, "checkout", "--quiet", "main")
    assert next_said(cli(done, "status", *MORE)) == (
        "measure the skill again, which was changed by hand; then step 3 of 4, by `step` or `run`"
    )


def next_said(told: Done) -> str:
    """The row of what is next, unfolded."""
    lines = told.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("next "))
    more = takewhile(lambda line: line.startswith("     "), lines[start + 1 :])
    return " ".join(part.strip() for part in (lines[start].removeprefix("next"), *more))
