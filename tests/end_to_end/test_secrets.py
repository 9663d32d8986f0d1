"""A key stays where it came from, whatever servers echo and however a command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Checkout

pytestmark = pytest.mark.end_to_end

KEY = "planted-3c9f1e77-secret"


def everything(checkout: Checkout) -> bytes:
    """All objects of the repository, and all of its files, the call cache among them."""
    objects = checkout.git("cat-file", "--batch-all-objects", "--batch", "--buffer")
    files = (path.read_bytes() for path in checkout.folder.rglob("*") if path.is_file())
    return objects.encode("utf-8", "surrogateescape") + b"".join(files)


def test_key_is_sent_and_kept_nowhere(checkout, command, model_server):
    done = command(checkout, "run", "-v", DEMO_KEY=KEY)
    assert done.returncode == 0, done.stderr
    assert model_server.keys == {f"Bearer {KEY}"}
    assert b"Kind a" in everything(checkout)
    assert KEY.encode() not in everything(checkout)
    assert KEY not in done.stdout + done.stderr


def test_key_that_a_server_echoes_in_its_errors_is_not_recorded(checkout, command, model_server):
    echoed = (500, f"cannot serve Bearer {KEY}")
    model_server.trouble = lambda prompt: echoed if prompt.endswith("Item 3 of kind d") else None
    done = command(
        checkout,
        "step",
        "-o",
        "train.batch_size=8",
        "-o",
        "gradient.minibatch_size=8",
        DEMO_KEY=KEY,
    )
    assert done.returncode == 0, done.stderr
    assert checkout.record(1).proposal.rollout.errors == 1
    assert KEY.encode() not in everything(checkout)


@pytest.mark.parametrize(("status", "code"), [(401, 2), (404, 2), (500, 5)])
def test_key_that_a_server_echoes_is_not_told(checkout, command, model_server, status, code):
    model_server.trouble = lambda prompt: (status, f"no such key: {KEY}")
    done = command(checkout, "step", "--json", "-v", DEMO_KEY=KEY)
    assert done.returncode == code
    assert "no such key" in done.stderr
    assert KEY not in done.stdout + done.stderr


def test_key_is_not_in_the_report_of_a_crash(checkout):
    checkout.write("sitecustomize.py", CRASH)
    done = subprocess.run(
        [sys.executable, "-m", "skillopt_ci", "step"],
        cwd=checkout.folder,
        env={**os.environ, "DEMO_KEY": KEY, "CI": "true", "PYTHONPATH": str(checkout.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "planted defect" in done.stderr
    assert KEY not in done.stderr


CRASH = f"""\
import skillopt_ci.cli.build as build
def fail(*args):
    raise RuntimeError("planted defect with {KEY}")
assert build.open_run
build.open_run = fail
"""
