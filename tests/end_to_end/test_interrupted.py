"""kill -9 at random events of runs with every option on: each ends like its uninterrupted twin."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.init import make_repository
from skillopt_ci.demo.server import SimulatedServer
from tests.support import (
    forked,
    simulated_modes,  # noqa: F401 - teaches the simulated optimizer
)
from tests.support.serving import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.conftest import Checkout, Workshop

pytestmark = pytest.mark.end_to_end

BRANCH = "skillopt/interrupted"
KILLS = 4
#: Most calls of one role under way at once: what a kill may make unheard.
UNDER_WAY = 3

CONFIG = """\
run: interrupted
skill: skills/ledger/SKILL.md
tasks:
  {train: tasks/train.jsonl, selection: tasks/selection.jsonl, test: tasks/test.jsonl, limit: 16}
scorer: {type: exact, answer: tag}
model:
  target:
    {provider: openai, model: simulated-target, base_url: URL, max_concurrency: 3, price: PRICE}
  optimizer:
    {provider: openai, model: simulated-optimizer, base_url: URL, max_concurrency: 3, price: PRICE}
train: {num_epochs: 2, batch_size: 4, accumulation: 2}
gradient: {minibatch_size: 3, merge_batch_size: 2}
optimizer:
  skill_update_mode: MODE
  lr_control_mode: CONTROL
  slow_update_samples: 12
  use_skill_aware_reflection: true
  skill_aware_consolidate_threshold: 1
evaluation: {gate_metric: mixed, use_semantic_density: true}
guard: {max_words: 400}
"""

#: Each update mode, with who sets the number of changes.
MODES = [
    ("patch", "fixed"),
    ("rewrite_from_suggestions", "autonomous"),
    ("full_rewrite_minibatch", "none"),
]
IDS = [mode for mode, _ in MODES]


@dataclass(frozen=True)
class World:
    """One server for all runs, since its address is part of the configuration."""

    workshop: Workshop
    server: SimulatedServer
    url: str

    def repository(self, name: str, mode: str, control: str) -> Checkout:
        checkout = self.workshop.place(name)
        make_repository(checkout.folder)
        price = "{input: 0.3, output: 1.1}"
        config = CONFIG.replace("MODE", mode).replace("CONTROL", control).replace("PRICE", price)
        checkout.write("skillopt.yaml", config.replace("URL", self.url))
        return checkout


@dataclass
class Run:
    """A run in a repository of its own, and how many answers it has had from the server."""

    world: World
    checkout: Checkout
    answers: int = 0

    def go(self, last: int = 0) -> bool:
        """Train and finish, or die at the event number ``last``; tell whether it died."""
        before = self.world.server.answered.total()
        script = str(Path(__file__).with_name("doomed.py"))
        words = [script, str(self.checkout.folder), str(last)]
        done = forked.run(words, cwd=self.checkout.folder, env=dict(os.environ))
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        self.answers += self.world.server.answered.total() - before
        return done.returncode != 0

    @property
    def unheard(self) -> int:
        """Answers that were given and are not kept: those that a kill left under way."""
        file = self.checkout.folder / ".git" / "skillopt-ci" / "calls.sqlite"
        if not file.exists():
            return self.answers
        with closing(sqlite3.connect(file)) as connection:
            (kept,) = connection.execute("SELECT count(*) FROM calls").fetchone()
        return self.answers - int(kept)


@pytest.fixture(scope="module")
def world(
    open_workshop: Callable[[Path], AbstractContextManager[Workshop]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("interrupted")
    server = SimulatedServer(seed=1)
    with open_workshop(folder) as workshop, running(server) as url:
        yield World(workshop, server, url)


@pytest.mark.parametrize(("mode", "control"), MODES, ids=IDS)
def test_a_run_that_is_killed_at_random_ends_like_its_twin(world, mode, control):
    twin = Run(world, world.repository(f"{mode}-twin", mode, control))
    assert not twin.go()
    assert twin.unheard == 0
    told = twin.checkout.subjects(BRANCH)
    assert told[-1].startswith("Finish training")
    assert set(re.findall(r"nd of epoch (\d)", "\n".join(told))) == {"1", "2"}
    run, random = (
        Run(world, world.repository(mode, mode, control)),
        Random(mode),
    )
    for _ in range(KILLS):
        unheard = run.unheard
        if not run.go(random.randint(1, 120)):
            break
        assert run.unheard - unheard <= 2 * UNDER_WAY
    unheard = run.unheard
    run.go()
    assert run.checkout.trees(BRANCH) == twin.checkout.trees(BRANCH)
    assert run.unheard == unheard
