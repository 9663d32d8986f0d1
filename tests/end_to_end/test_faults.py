"""A server that fails in a fifth of all tries changes nothing but the time it takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.init import make_repository
from skillopt_ci.demo.server import SimulatedServer
from tests.support.faulty_server import FAULTS, FaultyServer
from tests.support.serving import running

if TYPE_CHECKING:
    from tests.conftest import Checkout
    from tests.end_to_end.conftest import Command

pytestmark = pytest.mark.end_to_end


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


def test_verdicts_and_trees_are_those_of_a_run_without_faults(workshop, command):
    calm, stormy = workshop.place("calm"), workshop.place("stormy")
    with running(SimulatedServer()) as url:
        expected = train(command, calm, url)
    faulty = FaultyServer(rate=0.2)
    with running(faulty, int(url.rpartition(":")[2].removesuffix("/v1"))) as url:
        assert train(command, stormy, url) == expected
    assert set(faulty.faults) == set(FAULTS)
    assert stormy.trees("skillopt/quickstart") == calm.trees("skillopt/quickstart")
