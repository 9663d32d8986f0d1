"""Attempts shared out over machines, by the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def machine(name: str) -> tuple[str, str]:
    """A cache of its own."""
    return "-o", f"cache.path=.git/{name}.sqlite"


def test_plan_prints_a_matrix(cli: Cli, fresh: Path) -> None:
    assert cli(fresh, "plan", "--shards", "2", "--json").json == {
        "phase": "measure",
        "step": 1,
        "attempts": 16,
        "matrix": {"shard": ["1/2", "2/2"]},
    }


def test_plan_is_a_sentence_for_people(cli: Cli, fresh: Path) -> None:
    cli(fresh, "step")
    done = cli(fresh, "plan", "--shards", "3")
    assert done.out == "8 attempts to roll out the batch of step 2, in 3 shards: 1/3, 2/3, 3/3\n"


def test_plan_after_the_last_step_is_empty(cli: Cli, done: Path) -> None:
    planned = cli(done, "plan", "--json")
    assert planned.code == 3
    assert (planned.json["phase"], planned.json["matrix"]) == ("", {"shard": []})
    assert cli(done, "rollout", "--shard", "1/1").code == 3


def test_step_takes_over_what_the_shards_were_answered(cli: Cli, fresh: Path) -> None:
    for number in (1, 2):
        shard = f"{number}/2"
        file = f".git/answers-{number}.jsonl"
        told = cli(fresh, "rollout", "--shard", shard, "-O", file, "--json", *machine(shard[0]))
        assert (told.json["shard"], told.json["answers"], told.json["errors"]) == (shard, 8, 0)
    files = [word for n in (1, 2) for word in ("--rollouts", f".git/answers-{n}.jsonl")]
    done = cli(fresh, "step", *files, "--json", "-v", *machine("last"))
    assert done.code == 0
    assert done.json["step"] == 1


def test_shard_is_told_in_a_sentence(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "rollout", "--shard", "1/4")
    assert done.out.startswith("4 attempts, 4 answers in answers.jsonl. Used 4 calls")
    assert (fresh / "answers.jsonl").is_file()


@pytest.mark.parametrize("words", [("rollout", "--shard", "5/4"), ("rollout",)])
def test_what_names_no_shard_is_a_usage_error(
    cli: Cli, fresh: Path, words: tuple[str, ...]
) -> None:
    assert cli(fresh, *words).code == 2


def test_a_file_of_something_else_is_refused(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "step", "--rollouts", "skillopt.yaml")
    assert done.code == 2
    assert "skillopt.yaml:1: no answer of a rollout" in done.err


def test_half_a_step_leaves_a_candidate_to_measure(cli: Cli, fresh: Path) -> None:
    half = cli(fresh, "step", "--until-candidate", "--json")
    assert (half.code, half.json["kind"], half.json["step"]) == (0, "candidate", 1)
    assert cli(fresh, "plan", "--json").json["phase"] == "evaluation"
    assert cli(fresh, "step", "--until-candidate").out.startswith("Step 1: the candidate ")
    assert cli(fresh, "step", "--json", "-v").json["step"] == 1


def test_notes_are_read_from_a_file(cli: Cli, fresh: Path, git: Callable[..., str]) -> None:
    note = '{"id": "issue-1", "author": "wen", "text": "Write dates as ISO says."}'
    (fresh / "notes.json").write_text(f'{{"version": 1, "notes": [{note}]}}', encoding="utf-8")
    assert cli(fresh, "step", "--notes", "notes.json").code == 0
    state = git(fresh, "show", "skillopt/quickstart:.skillopt/quickstart/state.json")
    assert '"issue-1"' in state
    shown = cli(fresh, "show", "1").out
    assert "follows wen (issue-1)" in shown
    assert cli(fresh, "step", "--notes", "gone.json").code == 2
