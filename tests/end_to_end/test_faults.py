"""A separate server that fails in a fifth of all tries changes nothing but the time it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.init import make_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Checkout, Workshop
    from tests.end_to_end.conftest import Command

pytestmark = pytest.mark.end_to_end


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Run simulated models in a process of their own and give their address."""
    words = [sys.executable, "-m", "skillopt_ci", "simulate", "--port", "0", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def train(command: Command, checkout: Checkout, url: str) -> list[dict[str, object]]:
    make_repository(checkout.folder)
    settings = [f"model.{role}={{provider: openai, model: simulated-{role}, base_url: {url}}}"
                for role in ("target", "optimizer")]  # fmt: skip
    settings += ["tasks.limit=12", "train.batch_size=6", "train.num_epochs=1"]
    words = [word for setting in settings for word in ("-o", setting)]
    done = command(checkout, "run", "--json", *words)
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    return [{**step, "seconds": None, "commit": None} for step in steps]


def faults(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url.replace("/v1", "/stats")) as reply:
        found: dict[str, int] = json.load(reply)["faults"]
    return found


def test_verdicts_and_trees_are_those_of_a_run_without_faults(
    workshop: Workshop, command: Command
) -> None:
    calm, stormy = workshop.place("calm"), workshop.place("stormy")
    with serving() as url:
        expected = train(command, calm, url)
    port = url.rpartition(":")[2].removesuffix("/v1")
    with serving("--port", port, "--fault-rate", "0.2") as url:
        assert train(command, stormy, url) == expected
        assert set(faults(url)) == {
            "rate_limited", "server_error", "cut_connection", "truncated_json"
        }  # fmt: skip
    assert stormy.trees("skillopt/quickstart") == calm.trees("skillopt/quickstart")
