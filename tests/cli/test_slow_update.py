"""``slow-update``: called blindly by a scheduler."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
ENDS = ("-o", "optimizer.use_slow_update=true", "-o", "optimizer.use_meta_skill=true")
SCHEDULED = (*ENDS, "-o", "schedule.slow_update=scheduled")


@pytest.fixture
def due(cli: Cli, fresh: Path) -> Path:
    """The first epoch's steps are done, its end is not."""
    for _ in range(2):
        assert cli(fresh, "-q", "step", *SCHEDULED).code == 0
    return fresh


def test_nothing_due_is_exit_code_3(cli: Cli, fresh: Path) -> None:
    cli(fresh, "-q", "step", *SCHEDULED)
    done = cli(fresh, "slow-update", "--json", "--no-progress", *SCHEDULED)
    assert (done.code, done.out) == (3, "")
    assert done.err == "Nothing to do: no epoch's end is due.\n"


def test_an_end_that_is_due_is_done_once(cli: Cli, due: Path) -> None:
    assert cli(due, "slow-update", *SCHEDULED).code == 0
    assert cli(due, "epoch-end", *SCHEDULED).code == 3


def test_json_is_one_object(cli: Cli, due: Path) -> None:
    found = cli(due, "slow-update", "--json", *SCHEDULED).json
    assert list(found) == [
        *("kind", "epoch", "step", "action", "score_before", "score_after", "commit", "tasks"),
        *("pairs", "guidance", "meta_skill", "calls", "tokens", "cost_usd", "seconds"),
        "simulated",
    ]
    assert (found["kind"], found["epoch"], found["step"]) == ("slow_update", 1, 2)
    assert (found["action"], found["guidance"]) == ("force_accept", "inject_placeholder")
    assert found["score_before"] == found["score_after"]


def test_people_get_a_table(cli: Cli, due: Path) -> None:
    told = cli(due, "slow-update", *SCHEDULED).out
    assert "End of epoch 1, after step 2 (simulated models)" in told
    assert "make room for guidance" in told


def test_quiet_is_one_line(cli: Cli, due: Path) -> None:
    done = cli(due, "slow-update", "-q", *SCHEDULED)
    assert done.out.startswith("End of epoch 1, after step 2 (simulated models): merged")
    assert (done.out.count("\n"), done.err) == (1, "")


def test_verbose_tells_what_show_tells(cli: Cli, due: Path) -> None:
    told = cli(due, "-v", "slow-update", *SCHEDULED).out
    assert cli(due, "show", "--epoch", "1").out.strip() in told


def test_step_tells_of_the_end_before_it(cli: Cli, due: Path) -> None:
    done = cli(due, "step", "--json", *ENDS, "-o", "train.num_epochs=2")
    kinds = [line.partition(",")[0] for line in done.out.splitlines()]
    assert kinds == ['{"kind": "slow_update"', '{"kind": "step"']


def test_run_of_three_epochs_tells_every_end(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "run", "--json", *ENDS, "-o", "train.num_epochs=3")
    told = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["kind"], one["epoch"]) for one in told] == [
        (kind, epoch) for epoch in (1, 2, 3) for kind in ("step", "step", "slow_update")
    ]
    assert [one["pairs"] for one in told if one["kind"] == "slow_update"] == [0, 16, 16]


def test_show_names_what_is_wrong_with_an_epoch(cli: Cli, due: Path) -> None:
    done = cli(due, "show", "--epoch", "1")
    assert done.code == 2
    assert "has no record of the end of epoch 1: none was yet" in done.err


@pytest.mark.parametrize("args", [(), ("1", "--epoch", "1")])
def test_show_wants_a_step_or_an_epoch(cli: Cli, due: Path, args: tuple[str, ...]) -> None:
    done = cli(due, "show", *args)
    assert done.code == 2
    assert "either a STEP or an --epoch" in done.err


def test_log_and_status_tell_of_the_end(cli: Cli, due: Path) -> None:
    cli(due, "-q", "slow-update", *SCHEDULED)
    assert "end of epoch: merged" in cli(due, "log").out
    assert "last epoch end  epoch 1" in cli(due, "status").out
    assert cli(due, "status", "--json").json["epoch_end"] == 1
