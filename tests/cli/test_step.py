from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.git.locks import run_lock

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

GitText = Callable[..., str]


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_exactly_one_step_is_done(cli: Cli, fresh: Path, git: GitText) -> None:
    done = cli(fresh, "step")
    assert done.code == 0
    assert done.out.startswith("Step 1 of 2, epoch 1 (simulated models)\n")
    subjects = git(fresh, "log", "--format=%s", "--first-parent", "skillopt/quickstart")
    assert [line.split()[0] for line in subjects.splitlines()] == ["Merge", "Start", "Write"]


def test_the_next_step_goes_on_from_there(cli: Cli, fresh: Path) -> None:
    assert "Step 1 of 2" in cli(fresh, "step").out
    assert "Step 2 of 2" in cli(fresh, "step").out
    assert cli(fresh, "step").code == 3


def test_json_is_the_only_thing_on_stdout(cli: Cli, fresh: Path, git: GitText) -> None:
    done = cli(fresh, "step", "--json")
    found = done.json
    assert list(found) == [
        *(
            "kind",
            "step",
            "epoch",
            "action",
            "score_before",
            "score_after",
            "commit",
            "tasks",
            "edits",
        ),
        *("calls", "tokens", "cost_usd", "seconds", "simulated"),
    ]
    assert found["commit"] == git(fresh, "rev-parse", "skillopt/quickstart")
    assert (found["step"], found["tasks"], found["simulated"]) == (1, 16, True)
    assert "Step 1 of 2" in done.err


def test_quiet_is_one_line(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "-q", "step")
    assert done.err == ""
    assert done.out.startswith("Step 1 of 2, epoch 1 (simulated models): ")
    assert done.out.count("\n") == 1


def test_quiet_json_is_the_object_alone(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "step", "-q", "--json")
    assert done.json["step"] == 1
    assert done.err == ""


def test_verbose_tells_what_show_tells(cli: Cli, fresh: Path) -> None:
    told = cli(fresh, "-v", "step").out
    assert "edit 1" in told
    assert "  rollout" in told


def test_nothing_left_is_exit_code_3(cli: Cli, trained: Path) -> None:
    done = cli(trained, "step", "--json")
    assert (done.code, done.out) == (3, "")
    assert done.err.endswith("Nothing left to do: all epochs are trained.\n")


def test_a_budget_is_exit_code_4_and_what_was_paid_for_is_kept(cli: Cli, fresh: Path) -> None:
    whole = cli(fresh, "step", "--json", "-o", "budget.step.calls=20")
    assert whole.code == 4
    assert json.loads(whole.out)["exit_code"] == 4
    assert "budget.step.calls is used up: 20 of 20" in whole.err
    assert cli(fresh, "step", "-q").code == 0


def test_a_server_that_is_gone_is_exit_code_5(
    cli: Cli, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-this-test")
    base = f"http://127.0.0.1:{closed_port()}/v1"
    role = {"provider": "openai", "api_key_env": "OPENAI_API_KEY", "base_url": base, "retries": "0"}
    over = [word for key, value in role.items() for word in ("-o", f"model.target.{key}={value}")]
    done = cli(fresh, "step", *over)
    assert done.code == 5
    assert "16 of 16 selection tasks could not be measured" in done.err
    assert "sk-secret" not in done.err + done.out


def test_a_lost_race_is_exit_code_6(cli: Cli, fresh: Path) -> None:
    with run_lock(fresh / ".git", "quickstart"):
        done = cli(fresh, "step")
    assert done.code == 6
    assert "quickstart" in done.err


def test_a_wrong_key_is_exit_code_2_with_its_place(cli: Cli, fresh: Path) -> None:
    done = cli(fresh, "step", "-o", "train.batchsize=3")
    assert done.code == 2
    assert "batch_size" in done.err


def test_the_checkout_stays_as_it_was(cli: Cli, fresh: Path, git: GitText) -> None:
    (fresh / "notes.txt").write_text("mine\n", encoding="utf-8")
    before = git(fresh, "status", "--porcelain=v2", "--branch")
    assert cli(fresh, "step", "-q").code == 0
    assert git(fresh, "status", "--porcelain=v2", "--branch") == before


def test_an_epochs_end_alone_is_something_done(cli: Cli, done: Path) -> None:
    words = ("step", "--until-candidate", "-o", "optimizer.use_slow_update=true")
    first = cli(done, *words)
    assert (first.code, first.out.startswith("End of epoch 1")) == (0, True)
    assert cli(done, *words).code == 3


def test_what_a_kill_or_a_power_loss_left_is_put_right_and_told(
    cli: Cli, fresh: Path, git: GitText
) -> None:
    assert cli(fresh, "step", "-q").code == 0
    tip = git(fresh, "rev-parse", "skillopt/quickstart")
    (fresh / ".git/refs/heads/skillopt/quickstart").write_bytes(b"")
    lock = fresh / ".git/packed-refs.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    status = cli(fresh, "status")
    assert status.code == 2
    assert "skillopt/quickstart is broken in this repository" in status.err
    done = cli(fresh, "step")
    assert (done.code, done.out.partition(",")[0]) == (0, "Step 2 of 2")
    told = " ".join(done.err.split())
    assert f"skillopt/quickstart was broken, as after a power loss: put back to {tip[:12]}" in told
    assert "packed-refs.lock" in told
    assert not lock.exists()
    git(fresh, "merge-base", "--is-ancestor", tip, "skillopt/quickstart")
