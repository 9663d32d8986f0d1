from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.findings import Finding, exit_code
from skillopt_ci.errors import ExitCode

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

OK = Finding("config", "ok", "fine")
WARNING = Finding("tasks", "warning", "few")
MENDABLE = Finding("tasks", "error", "bad line", ExitCode.USAGE)
WORLD = Finding("git", "error", "no route", ExitCode.INFRASTRUCTURE)


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([OK, WARNING], 0),
        ([OK, MENDABLE], 2),
        ([OK, WORLD], 5),
        ([WORLD, MENDABLE, OK], 2),
        ([], 0),
    ],
)
def test_what_the_user_can_mend_goes_before_what_the_world_did(
    findings: list[Finding], code: int
) -> None:
    assert exit_code(findings) == code


def test_a_run_that_can_start_is_called_ready(cli: Cli, untrained: Path) -> None:
    done = cli(untrained, "validate")
    assert done.code == 0
    assert done.out.endswith("\nReady to train (2 warnings): skillopt-ci step\n")
    assert "ok       config           skillopt.yaml: run 'quickstart'\n" in done.out
    assert done.err == ""


def test_errors_are_counted_and_their_hints_indented(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "validate", "-o", "prompts=none", "-o", "git.base=trunk")
    assert done.code == 2
    assert done.out.endswith("\n2 errors, 2 warnings.\n")
    assert all(line[:1] != " " or line.startswith(" " * 26) for line in done.out.splitlines())


def test_quiet_leaves_what_needs_attention(cli: Cli, untrained: Path) -> None:
    done = cli(untrained, "-q", "validate")
    assert done.out.startswith("warning  tasks            only 16 selection tasks: ")
    assert all(line.startswith("warning  tasks") for line in done.out.splitlines())


def test_json_is_one_object(cli: Cli, untrained: Path) -> None:
    found = cli(untrained, "validate", "--json").json
    assert found["valid"] is True
    assert found["findings"][0] == {
        "part": "config",
        "level": "ok",
        "text": "skillopt.yaml: run 'quickstart'",
    }


def test_probing_simulated_models_costs_nothing_and_says_who_answered(
    cli: Cli, untrained: Path
) -> None:
    told = cli(untrained, "validate", "--probe").out
    assert "ok       model.target     simulated-target answered in " in told
    assert "ok       model.optimizer  simulated-optimizer answered in " in told


def test_a_hostile_task_file_reaches_no_terminal(cli: Cli, fresh: Path) -> None:
    with (fresh / "tasks/train.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "\\u001b[2J\\n::error::x", "prompt": 3}\n')
    done = cli(fresh, "validate")
    assert done.code == 2
    assert "\x1b" not in done.out
    assert "\n::error" not in done.out


GRADER = "-oscorer={type: command, command: [sh, -c, '%s']}"


def test_graders_are_tried_on_an_empty_submission(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "validate", GRADER % "test -s answer.txt")
    assert "ok       scorers          1 grader tried on an empty submission\n" in done.out
    assert "error    scorers" not in done.out


def test_a_grader_that_cannot_run_is_told_before_it_is_needed(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "validate", GRADER % "no-such-checker")
    assert done.code == 2
    assert "error    scorers          task " in done.out
    assert "an empty submission: sh ended with error status 127" in done.out
    assert "must give a verdict on any work" in done.out


def test_a_grader_on_a_computer_is_tried_on_what_an_agent_begins_with(
    cli: Cli, fresh: Path
) -> None:
    computer = "-orollout.computer={type: unconfined}"
    task = "-orollout.task={files: {given: x}}"
    scorer = "-oscorer={type: computer, command: 'test -e given || exit 126'}"
    done = cli(fresh, "validate", computer, task, scorer)
    assert "ok       scorers          1 grader tried on an empty submission\n" in done.out
    done = cli(fresh, "validate", computer, scorer)
    assert done.code == 2
    assert "the grading command ended with status 126" in done.out


def test_nothing_is_written(cli: Cli, fresh: Path, git: Callable[..., str]) -> None:
    before = git(fresh, "for-each-ref"), git(fresh, "status", "--porcelain=v2")
    assert cli(fresh, "validate").code == 0
    assert (git(fresh, "for-each-ref"), git(fresh, "status", "--porcelain=v2")) == before
    assert not (fresh / ".git/skillopt-ci").exists()
