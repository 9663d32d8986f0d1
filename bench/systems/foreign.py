"""Run SkillOpt or GEPA in its own environment, and read what it leaves."""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.critical_path import Timed
from bench.outcome import Outcome, Trial, judged, refuse_misunderstood
from bench.serving import ROOT, served
from bench.tasks_folder import write_tasks
from bench.world.parameters import Parameters
from bench.world.world import make_world


def run_skillopt(
    seed: int,
    folder: Path,
    envs: Path,
    *,
    latency: float = 0.0,
    workers: int = 16,
    world: Mapping[str, Any] | None = None,
) -> Outcome:
    """SkillOpt at its defaults on the world of ``seed``."""
    more = ["--workers", str(workers), "--config", json.dumps({"test_env_num": 1})]
    run = _Run("skillopt", "bench.systems.skillopt_run", more, workers, world or {})
    return run(seed, folder, envs, latency)


def run_gepa(
    seed: int,
    folder: Path,
    envs: Path,
    *,
    metric_calls: int,
    latency: float = 0.0,
    world: Mapping[str, Any] | None = None,
) -> Outcome:
    """GEPA at its defaults on the world of ``seed``, with a budget of target calls."""
    more = ["--metric-calls", str(metric_calls)]
    run = _Run("gepa", "bench.systems.gepa_run", more, 16, world or {})
    return run(seed, folder, envs, latency)


@dataclass(frozen=True, slots=True)
class _Run:
    """A system's runner; ``workers`` is how many calls it makes at once.

    ``parameters`` of the world are over its own.
    """

    system: str
    module: str
    more: Sequence[str]
    workers: int
    parameters: Mapping[str, Any]

    def __call__(self, seed: int, folder: Path, envs: Path, latency: float) -> Outcome:
        world = make_world(seed, Parameters(**self.parameters))
        out = folder / "out"
        tasks = write_tasks(world, folder / "tasks")
        with served(seed, latency, self.parameters) as server:
            named = ["--tasks", tasks, "--base-url", server.base_url, "--seed", seed, "--out", out]
            command = [envs / self.system / "bin" / "python", "-m", self.module, *named, *self.more]
            began = time.monotonic()
            _execute(list(map(str, command)), folder / "log.txt")
            seconds, stats = time.monotonic() - began, server.stats()
            timed = Timed.of(server.trace(), self.workers)
        refuse_misunderstood(stats)
        left = json.loads((out / "result.json").read_text())
        trials = [Trial(**one) for one in left["candidates"]]
        return judged(world, self.system, left["best"], trials, stats, seconds, timed=timed)


def _execute(command: Sequence[str], log: Path) -> None:
    with log.open("w") as lines:
        subprocess.run(
            command, cwd=ROOT, env=_environment(), stdout=lines, stderr=lines, check=True
        )


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": "."}
