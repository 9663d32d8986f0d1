from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_events_are_listed_oldest_first(cli: Cli, trained: Path) -> None:
    heading, *rows = cli(trained, "log").out.splitlines()
    assert heading.split() == [
        *("step", "epoch", "before", "after", "best", "edits", "words", "verdict")
    ]
    assert [row.split()[0] for row in rows] == ["–", "1", "2"]
    assert rows[0].endswith("start: training starts")


def test_only_the_last_events_are_listed_if_asked(cli: Cli, trained: Path) -> None:
    assert len(cli(trained, "log", "-n", "1").out.splitlines()) == 2


def test_json_is_one_object_per_event(cli: Cli, trained: Path) -> None:
    lines = cli(trained, "log", "--json").out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["start", "step", "step"]
