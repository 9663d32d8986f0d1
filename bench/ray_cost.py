"""Wall time of steps whose attempts a Ray cluster of this machine makes, against steps without it.

    python -m bench.ray_cost [--latency 0.2] [--repeats 3]

Both take the same steps on a world whose models answer after ``latency`` seconds. The first one
starts Ray and its workers, and does not count. Figures are the least of several, since a busy
machine only ever adds. Exits with 1 if a later step takes over 1.3 times as long with Ray, or if a
line of Ray's own reaches the terminal.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.serving import ROOT, served
from bench.systems.ours import environment, make_repository
from bench.world.world import Parameters, make_world
from skillopt_ci.cli.build import open_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.progress import silent
from skillopt_ci.training.run_context import equipped
from skillopt_ci.training.trainer import advance

LIMIT = 1.3
STEPS = 3


async def train_some(root: Path) -> None:
    """Print how many seconds each step takes."""
    opened = open_run(Globals(environ=environment(), cwd=root), silent)
    async with equipped(opened) as (run, _):
        for _ in range(STEPS):
            began = time.monotonic()
            while (outcome := await advance(run)) and not outcome.is_step:
                pass
            print(time.monotonic() - began)


def measured(kind: str, latency: float) -> tuple[list[float], str]:
    """Seconds of the steps, in a process and a repository of their own, and what it says else."""
    executor = (
        {"type": "ray", "address": "local", "cpus": 0.1} if kind == "ray" else {"type": "local"}
    )
    with served(0, latency) as server, tempfile.TemporaryDirectory() as folder:
        settings = {"rollout": {"executor": executor}}
        world = make_world(0, Parameters())
        root = make_repository(world, Path(folder) / "repository", server.base_url, settings)
        words = [sys.executable, "-m", "bench.ray_cost", "--root", str(root)]
        done = subprocess.run(words, check=True, capture_output=True, text=True, cwd=ROOT)
    lines = done.stdout.splitlines()
    return [float(line) for line in lines[:STEPS]], "\n".join(lines[STEPS:]) + done.stderr


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--root", type=Path)
    given = parser.parse_args()
    if given.root:
        asyncio.run(train_some(given.root))
        return 0
    best: dict[str, list[float]] = {}
    said = ""
    for kind in ("local", "ray"):
        taken = []
        for _ in range(given.repeats):
            seconds, words = measured(kind, given.latency)
            taken.append(seconds)
            said += words
        best[kind] = [min(column) for column in zip(*taken, strict=True)]
        print(f"{kind:<6}" + "".join(f"{one:>8.2f} s" for one in best[kind]), flush=True)
    ratios = [ray / local for ray, local in zip(best["ray"], best["local"], strict=True)]
    print("ratio " + "".join(f"{one:>8.2f}  " for one in ratios) + f"(limit {LIMIT})")
    print(said or "nothing else on the terminal")
    return int(min(ratios[1:]) > LIMIT or bool(said))


if __name__ == "__main__":
    sys.exit(main())
