from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.git.process import Git

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def first_task(folder: Path, split: str = "train") -> str:
    line = (folder / f"tasks/{split}.jsonl").read_text(encoding="utf-8").splitlines()[0]
    return str(json.loads(line)["id"])


def test_an_attempt_is_shown_from_question_to_outcome(cli: Cli, trained: Path) -> None:
    task = first_task(trained)
    done = cli(trained, "trace", task, "--stage", "rollout")
    assert (done.code, done.err) == (0, "")
    headings = [line for line in done.out.splitlines() if line and not line.startswith(" ")]
    assert headings == ["attempt", "system", "user", "model", "result", "outcome"]
    assert f"task {task}, attempt 0, stage rollout, solver chat" in done.out


def test_the_stage_can_be_chosen(cli: Cli, trained: Path) -> None:
    task = first_task(trained, "selection")
    assert "stage selection" in cli(trained, "trace", task, "--stage", "selection").out
    assert cli(trained, "trace", task, "--stage", "rollout").code == 2


def test_the_skill_can_be_chosen(cli: Cli, fresh: Path) -> None:
    # a run of its own: in the shared one other tests may have attempted the task since
    assert cli(fresh, "-q", "run").code == 0
    task = first_task(fresh, "selection")
    history = [
        json.loads(line)
        for line in Git(fresh)
        .text("show", "skillopt/quickstart:.skillopt/quickstart/history.jsonl")
        .splitlines()
    ]
    first = history[0]["skill_sha256"]
    asked = ("trace", task, "--stage", "selection", "--skill")
    assert f"skill {first[:12]}" in cli(fresh, *asked, first[:8]).out
    assert f"skill {first[:12]}" not in cli(fresh, *asked, "").out
    assert cli(fresh, *asked, "0" * 64).code == 2


def test_json_has_the_events(cli: Cli, trained: Path) -> None:
    events = cli(trained, "trace", first_task(trained), "--json").json
    assert [event["type"] for event in events][-1] == "attempt_ended"
    assert {event["run"] for event in events} == {"quickstart"}
    assert events[1]["messages"][0]["content"]


@pytest.mark.parametrize("words", [("nonsense",), ("nonsense", "--attempt", "1")])
def test_an_unknown_task_is_told_with_the_nearest_ones(
    cli: Cli, trained: Path, words: tuple[str, ...]
) -> None:
    done = cli(trained, "trace", *words)
    assert done.code == 2
    assert "No attempt at task 'nonsense' is recorded" in done.err


def test_without_a_record_it_says_where_one_would_be(cli: Cli, untrained: Path) -> None:
    done = cli(untrained, "trace", "t")
    assert done.code == 2
    assert "Nothing is recorded" in done.err


def test_events_can_be_switched_off(cli: Cli, fresh: Path) -> None:
    assert cli(fresh, "-q", "step", "-o", "rollout.events=false").code == 0
    assert cli(fresh, "trace", first_task(fresh)).code == 2
