"""Run SkillOpt or GEPA in its own environment, and read what it leaves."""

import json
import math
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.outcome import Outcome, Timed, Trial, judged, refuse_misunderstood
from bench.serving import ROOT, served
from bench.world.world import INITIAL_SKILL, Parameters, World, make_world

#: How SkillOpt calls the splits.
_FOLDERS = {"train": "train", "selection": "val", "test": "test"}


def run_skillopt(
    seed: int,
    folder: Path,
    envs: Path,
    *,
    latency: float = 0.0,
    workers: int = 16,
    world: Mapping[str, Any] | None = None,
    steps: int | None = None,
) -> Outcome:
    """SkillOpt at its defaults on the world of ``seed``, or so many ``steps`` of them."""
    settings: dict[str, Any] = {"test_env_num": 1}
    if steps is not None:
        settings |= {"stop_after": steps, "num_epochs": math.ceil(steps / 4)}
    more = ["--workers", str(workers), "--config", json.dumps(settings)]
    return _run("skillopt", more, workers, world or {}, seed, folder, envs, latency)


def run_gepa(
    seed: int,
    folder: Path,
    envs: Path,
    *,
    metric_calls: int,
    world: Mapping[str, Any] | None = None,
    minibatch: int = 3,
) -> Outcome:
    """GEPA at its defaults on the world of ``seed``, with a budget of target calls."""
    more = ["--metric-calls", str(metric_calls), "--minibatch", str(minibatch)]
    return _run("gepa", more, 16, world or {}, seed, folder, envs, 0.0)


def _run(
    system: str,
    more: Sequence[str],
    workers: int,
    parameters: Mapping[str, Any],
    seed: int,
    folder: Path,
    envs: Path,
    latency: float,
) -> Outcome:
    """Run a system that makes ``workers`` calls at once; ``parameters`` go over the world's own."""
    world, out = make_world(seed, Parameters(**parameters)), folder / "out"
    tasks = write_tasks(world, folder / "tasks")
    with served(seed, latency, parameters) as server:
        named = ["--tasks", tasks, "--base-url", server.base_url, "--seed", seed, "--out", out]
        module = f"bench.systems.{system}_run"
        command = [envs / system / "bin" / "python", "-m", module, *named, *more]
        began = time.monotonic()
        with (folder / "log.txt").open("w") as log:
            here = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
            subprocess.run(
                list(map(str, command)),
                cwd=ROOT,
                env={**here, "PYTHONPATH": "."},
                stdout=log,
                stderr=log,
                check=True,
            )
        seconds, stats = time.monotonic() - began, server.stats()
        timed = Timed.of(server.trace(), workers)
    refuse_misunderstood(stats)
    left = json.loads((out / "result.json").read_text())
    trials = [Trial(**one) for one in left["candidates"]]
    return judged(world, system, left["best"], trials, stats, seconds, timed=timed)


def write_tasks(world: World, folder: Path) -> Path:
    """Write SkillOpt's split directory and the initial skill into ``folder``."""
    for split, name in _FOLDERS.items():
        items = [
            {"id": task.id, "task_type": task.type, "question": task.prompt, "answer": task.answer}
            for task in world.splits[split]
        ]
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "items.json").write_text(json.dumps(items))
    (folder / "initial.md").write_text(INITIAL_SKILL)
    return folder
