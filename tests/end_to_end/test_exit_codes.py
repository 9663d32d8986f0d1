"""How commands end, for scripts that must tell why."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.end_to_end


def test_step_is_done_and_then_nothing_is_left(checkout, command):
    one_step = ("-o", "train.num_epochs=1", "-o", "train.batch_size=8")
    done = command(checkout, "step", "--json", *one_step)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["commit"] == checkout.ref("skillopt/demo")
    assert command(checkout, "step", *one_step).returncode == 3


def test_used_up_budget(checkout, command):
    done = command(checkout, "run", "-o", "budget.run.calls=20")
    assert done.returncode == 4
    assert "budget.run.calls is used up" in done.stderr


def test_too_many_errors(checkout, command, model_server):
    model_server.trouble = lambda prompt: (500, "out of order")
    done = command(checkout, "step", "--json")
    assert done.returncode == 5
    assert json.loads(done.stdout)["error"]["type"] == "TooManyErrors"
    assert checkout.ref("skillopt/demo") == ""


def test_second_process_in_a_clone(checkout, command):
    with checkout.session().ledger.lock():
        done = command(checkout, "run")
    assert done.returncode == 6
    assert "another skillopt-ci is training" in done.stderr


def test_terminated_run_goes_on_where_it_was(checkout, model_server):
    words = [sys.executable, "-m", "skillopt_ci", "run", "-o", "model.target.max_concurrency=1"]

    def terminate(prompt: str) -> tuple[int, str] | None:
        if not prompt.endswith("Item 102 of kind c"):
            return None
        process.send_signal(signal.SIGTERM)
        return 500, "too late"

    model_server.trouble = terminate
    with subprocess.Popen(
        words,
        cwd=checkout.folder,
        env={**os.environ, "DEMO_KEY": "sk-demo-key"},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _, told = process.communicate()
    assert process.returncode == 130, told
    assert "the same command goes on" in told
    model_server.trouble = lambda prompt: None
    assert len(checkout.run()) == 4
    assert model_server.answered.total() == checkout.state().usage.calls


@pytest.mark.parametrize("options", [("--depth=1",), ("--single-branch",)])
def test_partial_clone_can_be_read(workshop, command, options):
    origin = workshop.origin()
    workshop.clone(origin, "first").step()
    clone = workshop.clone(origin, "second", *options)
    shown = [command(clone, *words) for words in (("status",), ("log",), ("show", "1"))]
    assert [done.returncode for done in shown] == [0, 0, 0]
    assert all("0.250" in done.stdout for done in shown)
    assert "Kind a: a number begins with a." in shown[2].stdout
