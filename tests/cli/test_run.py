from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_all_steps_are_done_and_then_none_is_left(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "run")
    assert done.code == 0
    assert re.findall(r"^Step (\d) of 2", done.out, re.MULTILINE) == ["1", "2"]
    assert done.err.endswith("All epochs are trained: 2 steps in this run.\n")
    assert cli(fresh, "run").code == 3


def test_the_ends_of_epochs_are_no_steps(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "run", "-q", "-v", "-o", "optimizer.use_slow_update=true")
    assert done.err.endswith("2 steps and 1 end of an epoch in this run.\n")


def test_json_is_one_object_per_step_on_stdout(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "run", "--json")
    assert [json.loads(line)["step"] for line in done.out.splitlines()] == [1, 2]


def test_in_a_file_no_line_is_ragged(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "run")
    for text in (done.out, done.err):
        assert not re.search(r"[ \t\r]$|\n\n\n|\x1b", text, re.MULTILINE)
        assert not text.startswith("\n")
        assert max(map(len, done.out.splitlines())) <= 80


def test_every_line_of_a_log_names_its_stage(cli: Cli, fresh: Path) -> None:
    lines = [line for line in cli(fresh, "run", "--json").err.splitlines() if line[:1] in "·✓"]
    stages = {line.split()[1] for line in lines if line}
    assert {"rollout", "reflect", "aggregate", "select", "update", "selection"} <= stages


def test_a_budget_of_the_run_ends_it_between_calls(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "run", "-q", "-o", "budget.run.calls=60")
    assert done.code == 4
    assert done.out.count("\n") == 1
    assert cli(fresh, "run", "-q").out.startswith("Step 2 of 2")
