"""Verdict quality: what each system truly reaches on noisy worlds, and how often it errs.

``python -m bench.verdicts --envs DIR --out DIR --seeds 30`` prints a table and writes JSON.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.figures import Summary, summary, table
from bench.outcome import Outcome
from bench.systems.foreign import run_gepa, run_skillopt
from bench.systems.ours import run_command, run_inside

#: The systems to compare with.
OTHERS = ("skillopt", "gepa")


@dataclass(frozen=True, slots=True)
class Contest:
    """One system on one seed; ``settings`` (ours) and ``world`` go over the defaults."""

    system: str
    seed: int
    envs: Path
    metric_calls: int
    over_http: bool
    settings: Mapping[str, Any]
    world: Mapping[str, Any]


def run(contest: Contest) -> Outcome:
    """Run it in a folder of its own, which is removed."""
    folder, world = Path(tempfile.mkdtemp(prefix="bench-", dir=_memory())), contest.world
    try:
        if contest.system == "skillopt":
            return run_skillopt(contest.seed, folder, contest.envs, world=world)
        if contest.system == "gepa":
            calls = contest.metric_calls
            return run_gepa(contest.seed, folder, contest.envs, metric_calls=calls, world=world)
        ours = run_command if contest.over_http else run_inside
        settings, name = contest.settings, contest.system
        return ours(contest.seed, folder, settings, name=name, parameters=world)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _memory() -> str | None:
    """A folder in memory where the system has one: a run is many small files."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> None:
    """Run the contests that the command line names, and print the table."""
    given = _parser().parse_args()
    variants = {} if given.without_ours else dict(map(_variant, given.ours or ["strict={}"]))
    reused = _read(given.reuse) if given.reuse else []
    fresh = [name for name in given.others if name not in {one.system for one in reused}]
    if fresh and not given.envs.is_dir():
        sys.exit(f"--envs {given.envs} is not a folder; bench/setup.sh makes it")
    systems = {**{name: {} for name in fresh}, **variants}
    contests = [
        Contest(system, seed, given.envs, given.metric_calls, given.http, settings, given.world)
        for seed in range(given.first_seed, given.first_seed + given.seeds)
        for system, settings in systems.items()
    ]
    with ProcessPoolExecutor(given.processes) as pool:
        outcomes = [*reused, *pool.map(run, contests)]
    _publish(outcomes, given.others, given.out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--envs", type=Path, default=Path("/nonexistent"), help="folder of bench/setup.sh")
    add("--out", type=Path, required=True, help="folder for the JSON")
    add("--seeds", type=int, default=30)
    add("--first-seed", type=int, default=0)
    add("--metric-calls", type=int, default=840, help="GEPA's budget")
    add("--processes", type=int, default=2)
    add("--others", nargs="*", choices=OTHERS, default=list(OTHERS), help="whom to compare with")
    add("--without-others", dest="others", action="store_const", const=[], help="ours alone")
    add("--reuse", type=Path, help="a verdicts.json to take the others' runs from")
    add("--without-ours", action="store_true", help="the others alone")
    add("--world", type=json.loads, default={}, help="parameters of the world, as JSON")
    add("--http", action="store_true", help="ours by its command, over HTTP")
    add(
        "--ours",
        action="append",
        metavar="NAME=JSON",
        help='a variant of ours, such as strict={"evaluation": {…}}; may be repeated',
    )
    return parser


def _read(file: Path) -> list[Outcome]:
    """The others' runs of an earlier report."""
    runs = json.loads(file.read_text())["runs"]
    return [Outcome(**{**one, "curve": ()}) for one in runs if one["system"] in OTHERS]


def _variant(text: str) -> tuple[str, Mapping[str, Any]]:
    name, _, settings = text.partition("=")
    return name, json.loads(settings or "{}")


def _publish(outcomes: Sequence[Outcome], others: Sequence[str], out: Path) -> None:
    systems = dict.fromkeys(one.system for one in outcomes)
    groups = {name: [one for one in outcomes if one.system == name] for name in systems}
    rival = max((_mean(groups[name]) for name in others), default=None)
    found: list[Summary] = [summary(group, rival) for group in groups.values()]
    print(table(found))
    out.mkdir(parents=True, exist_ok=True)
    report = {"summary": list(map(asdict, found)), "runs": list(map(asdict, outcomes))}
    (out / "verdicts.json").write_text(json.dumps(report, indent=1))


def _mean(group: Sequence[Outcome]) -> tuple[float, float]:
    """A system's mean true score and the mean of the calls that it took."""
    return (
        sum(one.true for one in group) / len(group),
        sum(one.paid for one in group) / len(group),
    )


if __name__ == "__main__":
    main()
