from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SKILL = "skills/ledger/SKILL.md"


def test_initial_and_best_are_compared_on_the_test_tasks(cli: Cli, trained: Path) -> None:
    done = cli(trained, "eval")
    lines = done.out.splitlines()
    assert lines[0] == "test tasks (simulated models)"
    assert [line.split()[0] for line in lines[2:4]] == ["initial", "best"]
    assert re.match(
        r"best minus initial, on the same 16 tasks: [+-]0\.\d{3} ± .* \(95 %\)\.$", lines[4]
    )
    assert re.match(r"\d+ fixed, \d+ broken\.$", lines[5])


def test_json_is_one_object(cli: Cli, trained: Path) -> None:
    found = cli(trained, "eval", "initial", "best", "--json").json
    first, second = found["skills"]
    assert found["difference"]["hard"] == pytest.approx(second["hard"] - first["hard"])
    assert (found["split"], found["simulated"], first["tasks"]) == ("test", True, 16)


@pytest.mark.parametrize(
    "word", ["best", "initial", "current", SKILL, "main", f"main:{SKILL}", "skillopt/quickstart~1"]
)
def test_a_skill_is_named_in_many_ways(cli: Cli, trained: Path, word: str) -> None:
    (skill,) = cli(trained, "eval", word, "--json").json["skills"]
    assert (skill["name"], skill["tasks"]) == (word, 16)


@pytest.mark.parametrize(("split", "tasks"), [("train", 16), ("selection", 16), ("all", 48)])
def test_any_split_can_be_measured(cli: Cli, trained: Path, split: str, tasks: int) -> None:
    found = cli(trained, "eval", "best", "--split", split, "--json").json
    assert found["skills"][0]["tasks"] == tasks
    assert found["difference"] is None


def test_the_same_text_is_measured_once(cli: Cli, trained: Path) -> None:
    off = ("-o", "cache.enabled=false")
    found = cli(trained, "eval", "main", f"main:{SKILL}", "--json", *off).json
    assert found["calls"] == 16


def test_verbose_adds_the_task_types(cli: Cli, trained: Path) -> None:
    assert "\n  payment" in cli(trained, "-v", "eval", "best").out


def test_three_skills_are_too_many(cli: Cli, trained: Path) -> None:
    done = cli(trained, "eval", "best", "initial", "current")
    assert done.code == 2
    assert "one skill, or two" in done.err


def test_a_split_without_tasks_is_refused(
    cli: Cli, fresh: Path, edit: Callable[[Path, str, str], None]
) -> None:
    edit(fresh / "skillopt.yaml", "  test: tasks/test.jsonl", "  # none")
    done = cli(fresh, "eval", "main")
    assert done.code == 2
    assert "names no test tasks" in done.err


def test_a_comparison_with_itself_shows_no_difference(cli: Cli, trained: Path) -> None:
    assert (
        "tasks: +0.000 ± 0.000 (95 %).\n0 fixed, 0 broken."
        in cli(trained, "eval", "best", "best").out
    )


def test_json_says_how_sure_it_is_and_whether_anything_is_missing(cli: Cli, trained: Path) -> None:
    found = cli(trained, "eval", "initial", "best", "--json").json
    skill = found["skills"][1]
    low, high = skill["hard_estimate"]["interval"]
    assert low < skill["hard"] < high or skill["hard"] in (low, high)
    assert (skill["complete"], skill["error_table"], skill["missing"]) == (True, [], [])
    assert skill["pessimistic"]["hard"] == pytest.approx(skill["hard"])
    assert sum(kind["tasks"] for kind in skill["by_type"].values()) == 16
    low, high = found["difference"]["interval"]
    assert low <= found["difference"]["hard"] <= high


def test_several_attempts_say_how_often_a_task_is_solved_at_all(cli: Cli, trained: Path) -> None:
    thrice = ("-o", "rollout.attempts=3")
    found = cli(trained, "eval", "best", "--json", *thrice).json["skills"][0]
    assert (found["tasks"], found["attempts"]) == (16, 48)
    assert list(found["pass_at"]) == ["1", "2", "3"]
    assert found["pass_at"]["1"] == pytest.approx(found["hard"])
    assert found["pass_hat"]["3"] <= found["pass_at"]["1"] <= found["pass_at"]["3"]
    assert "best: solved at least once (pass@k): 1: 0." in cli(trained, "eval", "best", *thrice).out


def test_verbose_adds_the_lengths_of_conversations(cli: Cli, trained: Path) -> None:
    line = "best: messages in a conversation: 3, 3, 3 (quartiles)"
    assert line in cli(trained, "-v", "eval", "best").out
    assert line not in cli(trained, "eval", "best").out
