from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.report.terminal import LOG_HEADINGS

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


@pytest.fixture
def long(done: Path, git: Callable[..., str]) -> Path:
    """A run with 201 events: steps of more digits, long reasons."""
    branch, file = "skillopt/quickstart", done / ".skillopt/quickstart/history.jsonl"
    git(done, "checkout", "--quiet", branch)
    start, *_, step = file.read_text(encoding="utf-8").splitlines()
    steps = [json.dumps({**json.loads(step), "step": n, "epoch": n // 9}) for n in range(1, 200)]
    asked = {**json.loads(start), "action": "measure_again", "reason": "the scorer changed " * 9}
    file.write_text("\n".join([start, *steps, json.dumps(asked)]) + "\n", encoding="utf-8")
    git(done, "commit", "--quiet", "--all", "--message", "Train for long")
    git(done, "checkout", "--quiet", "main")
    return done


def test_events_are_listed_oldest_first(cli: Cli, trained: Path) -> None:
    title, heading, *rows = cli(trained, "log").out.splitlines()
    assert title == "Run quickstart (simulated models)"
    assert heading.split() == [
        *("step", "epoch", "before", "after", "best", "edits", "words", "verdict")
    ]
    assert [row.split()[0] for row in rows] == ["–", "1", "2"]
    assert rows[0].endswith("start: training starts")


def test_only_the_last_events_are_listed_if_asked(cli: Cli, trained: Path) -> None:
    title, _, row = cli(trained, "log", "-n", "1").out.splitlines()
    assert title.endswith(", newest 1 of 3 events (see --all)")
    assert row.startswith("2 ")


def test_of_a_long_history_the_newest_are_listed(cli: Cli, long: Path) -> None:
    title, _, *rows = cli(long, "log").out.splitlines()
    assert title.endswith("newest 40 of 201 events (see --all)")
    steps = [row.split()[0] for row in rows if not row.startswith(" ")]
    assert steps == [*map(str, range(161, 200)), "–"]
    assert len(cli(long, "log", "--json").out.splitlines()) == 201
    title, _, *rows = cli(long, "log", "--all").out.splitlines()
    assert title == "Run quickstart (simulated models)"
    assert sum(not row.startswith(" ") for row in rows) == 201


def test_all_and_a_number_contradict_each_other(cli: Cli, trained: Path) -> None:
    done = cli(trained, "log", "-n", "1", "--all")
    assert (done.code, "either a --number or --all" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (40, {"words", "edits", "epoch"}),
        (60, {"words", "edits", "epoch"}),
        (80, set()),
        (120, set()),
    ],
)
def test_a_narrow_terminal_gets_fewer_columns(
    cli: Cli, long: Path, monkeypatch: pytest.MonkeyPatch, width: int, left_out: set[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    _, *lines = cli(long, "log").out.splitlines()
    assert max(map(len, lines)) <= width
    heading = lines[0]
    assert set(LOG_HEADINGS) - set(heading.split()) == left_out


def test_json_is_one_object_per_event(cli: Cli, trained: Path) -> None:
    lines = cli(trained, "log", "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["start", "step", "step"]
