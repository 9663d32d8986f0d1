"""Wall time, calls and tokens of one default training run, against SkillOpt's.

``python -m bench.wall_time --envs DIR --out DIR`` runs both at latencies of 0, 0.2 and 2 s, with as
many calls at once, and prints each with its ratio and with the least time that its calls allow.
"""

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bench.figures import aligned, first_reach
from bench.outcome import Outcome
from bench.systems.foreign import run_skillopt
from bench.systems.ours import run_command


@dataclass(frozen=True, slots=True)
class Timing:
    """One system at one latency, means over the seeds.

    ``ratio`` is its wall time to SkillOpt's. ``reach`` is the median time to the true score with
    which SkillOpt ends, to SkillOpt's whole time. ``least`` is what its calls take if only those
    wait that depend on others and ``workers`` are made at once, ``overhead`` the wall time to it.
    ``step`` is the same of a single step or epoch's end: the median; ``slowest`` the largest.
    """

    latency: float
    system: str
    seconds: float
    ratio: float
    reach: float
    calls: float
    calls_ratio: float
    tokens: float
    tokens_ratio: float
    least: float
    overhead: float
    step: float
    slowest: float


def compared(latency: float, mine: Sequence[Outcome], theirs: Sequence[Outcome]) -> list[Timing]:
    """Both systems' rows at one latency."""
    return [_timing(latency, group, theirs) for group in (theirs, mine)]


def _timing(latency: float, group: Sequence[Outcome], rival: Sequence[Outcome]) -> Timing:
    seconds, calls, tokens = _means(group)
    their_seconds, their_calls, their_tokens = _means(rival)
    least = latency * statistics.mean(one.timed.rounds for one in group)
    steps = [
        piece.seconds / (latency * piece.rounds)
        for one in group
        for piece in one.timed.pieces
        if latency
    ]
    return Timing(
        latency=latency,
        system=group[0].system,
        seconds=seconds,
        ratio=seconds / their_seconds,
        reach=statistics.median(
            first_reach(one.clock, other.true) / other.seconds if one.clock else math.nan
            for one, other in zip(group, rival, strict=True)
        ),
        calls=calls,
        calls_ratio=calls / their_calls,
        tokens=tokens,
        tokens_ratio=tokens / their_tokens,
        least=least,
        overhead=seconds / least if least else float("nan"),
        step=statistics.median(steps) if steps else float("nan"),
        slowest=max(steps, default=float("nan")),
    )


def _means(group: Sequence[Outcome]) -> tuple[float, float, float]:
    return (
        statistics.mean(one.seconds for one in group),
        statistics.mean(sum(one.calls.values()) for one in group),
        statistics.mean(sum(one.tokens.values()) for one in group),
    )


def _settings(workers: int, more: Mapping[str, Any]) -> dict[str, Any]:
    role = {"max_concurrency": workers}
    return {"model": {"target": role, "optimizer": role}, **more}


def main() -> None:
    """Time what the command line names, one run after the other, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=Path, required=True, help="folder of bench/setup.sh")
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--latencies", type=float, nargs="+", default=[0.0, 0.2, 2.0])
    parser.add_argument("--workers", type=int, default=16, help="calls under way at once, of both")
    parser.add_argument("--settings", type=json.loads, default={}, help="ours, as JSON")
    parser.add_argument("--world", type=json.loads, default={}, help="its parameters, as JSON")
    given = parser.parse_args()
    rows: list[Timing] = []
    for latency in given.latencies:
        mine, theirs = [], []
        for seed in range(given.seeds):
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder)
                settings = _settings(given.workers, given.settings)
                mine.append(
                    run_command(
                        seed, place / "ours", settings, latency=latency, parameters=given.world,
                        python=given.envs / "ours/bin/python",
                    )
                )  # fmt: skip
                theirs.append(
                    run_skillopt(
                        seed, place / "skillopt", given.envs,
                        latency=latency, workers=given.workers, world=given.world,
                    )
                )  # fmt: skip
        rows += compared(latency, mine, theirs)
    names = [field.name for field in fields(Timing)]
    print(aligned(names, [[getattr(row, name) for name in names] for row in rows]))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "wall_time.json").write_text(json.dumps(list(map(asdict, rows)), indent=1))


if __name__ == "__main__":
    main()
