"""True score for equal cost in 24 worlds: ours against the others, with nothing tuned per world.

``python -m bench.grid --out FILE --cost 470 --seeds 3`` prints a row for each system. The cost of a
run is its attempts at training and selection tasks, and five for each call of the optimizer; beside
it stands what it would be at one and at twenty. The worlds come from a Latin hypercube:
``--worlds 1`` draws those that defaults were chosen on, other numbers others. Runs whose rows FILE
holds already are not done again, so that seeds can be added.
"""

import argparse
import json
import math
import random
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.figures import aligned
from bench.outcome import Outcome
from bench.systems.foreign import run_gepa, run_skillopt
from bench.systems.ours import run_inside
from bench.world.world import Parameters, make_world

COUNT = 24
#: Verdicts of the gate, right and wrong, which a row takes from the run's outcome.
VERDICTS = ("accepted", "worse_accepted", "rejected", "better_rejected")
#: What a call of the optimizer costs, in attempts.
OPTIMIZER = 5
#: How much of the cost may go into attempts, so that the others end near it; measured.
SHARE = {"gepa3": 0.92, "gepa8": 0.75}
#: Steps of SkillOpt at its defaults: attempts at 40 training tasks and about nine questions each.
SKILLOPT_STEP = 40 + 9 * OPTIMIZER


def worlds(seed: int) -> list[dict[str, Any]]:
    """Parameters of ``COUNT`` worlds: each dimension is cut into as many parts, each used once.

    The dimensions: how often the target is right without and with all rules; how many proposals
    carry a harmful edit, and how much harm those do; how many rules there are, and for how many
    types of task each; how often the optimizer is right, and whether it sees more in more
    evidence; the number of selection tasks; how far tasks differ in difficulty.
    """
    dice = random.Random(f"grid/{seed}")
    columns = [dice.sample(range(COUNT), COUNT) for _ in range(10)]
    return [
        _world([(row + dice.random()) / COUNT for row in rows])
        for rows in zip(*columns, strict=True)
    ]


def _world(at: Sequence[float]) -> dict[str, Any]:
    low = 0.05 + 0.5 * at[0]
    high = min(0.97, max(low + 0.2, 0.6 + 0.37 * at[1]))
    rules, each, odds = int(4 + 12 * at[4]), 1 + (at[5] >= 0.5), 0.35 + 0.5 * at[6]
    base = _logit(low)
    return {
        "weights": (((_logit(high) - base) * 6 / (rules * each)),) * rules,
        "types_per_rule": each,
        "harm": 0.3 + 1.5 * at[3],
        "harmful": 0.6 * at[2],
        "base": base,
        "difficulty_sd": 1.2 * at[9],
        "floor": 0.0,
        "ceiling": 1.0,
        "free_rules": rules + 6,
        "chance": 0.4 + 1.2 * at[7],
        "belief": (4 * odds, 4 * (1 - odds)),
        "learned": 0.07 if at[7] < 0.5 else 0.0,
        "train": 128,
        "selection": int(20 * 10 ** at[8]),
    }


def idle(world: Mapping[str, Any]) -> dict[str, Any]:
    """The world with rules that do nothing: an A/A test of the gate and of confirmation."""
    return {**world, "weights": (0.0,) * len(world["weights"]), "harm": 0.0, "clutter": 0.0}


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


@dataclass(frozen=True, slots=True)
class Contest:
    """One system on one seed of one world."""

    system: str
    settings: Mapping[str, Any]
    number: int
    world: Mapping[str, Any]
    seed: int
    cost: int
    envs: Path


@dataclass(frozen=True, slots=True)
class Row:
    """What came of it: ``ceiling`` is the true score of the skill that states all right rules.

    ``false`` of the ``confirmed`` skills are no better than the last one that was confirmed.
    ``worse_accepted`` of the ``accepted`` candidates were no better than the skill that they
    replaced, ``better_rejected`` of the ``rejected`` ones were.
    """

    system: str
    world: int
    seed: int
    attempts: int
    questions: int
    start: float
    true: float
    ceiling: float
    confirmed: int = 0
    refuted: int = 0
    false: int = 0
    accepted: int = 0
    worse_accepted: int = 0
    rejected: int = 0
    better_rejected: int = 0

    def cost(self, question: int = OPTIMIZER) -> int:
        """In attempts, with what a question to the optimizer costs."""
        return self.attempts + question * self.questions


def run(contest: Contest) -> Row:
    """Run it in a folder of its own, which is removed."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder, found = Path(tempfile.mkdtemp(prefix="grid-", dir=memory)), None
    try:
        found = _outcome(contest, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    world = make_world(contest.seed, Parameters(**contest.world))
    ceiling = world.true_score(world.best_skill())
    tests, calls = found.confirmations, found.calls
    questions = sum(count for phase, count in calls.items() if phase.startswith("optimizer/"))
    attempts = sum(calls.get(f"target/{split}", 0) for split in ("train", "selection"))
    return Row(
        system=contest.system,
        world=contest.number,
        seed=contest.seed,
        attempts=attempts,
        questions=questions,
        start=found.start,
        true=found.true,
        ceiling=ceiling,
        confirmed=sum(one.action == "confirmed" for one in tests),
        refuted=sum(one.action == "refuted" for one in tests),
        false=sum(one.false for one in tests),
        **{name: getattr(found, name) for name in VERDICTS},
    )


def _outcome(contest: Contest, folder: Path) -> Outcome:
    seed, world, cost, envs = contest.seed, contest.world, contest.cost, contest.envs
    if contest.system == "skillopt":
        steps = (cost - world["selection"]) / (SKILLOPT_STEP + world["selection"])
        return run_skillopt(seed, folder, envs, world=world, steps=max(1, round(steps)))
    if contest.system in SHARE:
        calls = int(cost * SHARE[contest.system])
        size = int(contest.system.removeprefix("gepa"))
        return run_gepa(seed, folder, envs, metric_calls=calls, world=world, minibatch=size)
    return run_inside(seed, folder, contest.settings, name=contest.system, parameters=world)


def main() -> None:
    """Run the contests that the command line names, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--envs", type=Path, default=Path("/nonexistent"), help="folder of bench/setup.sh")
    add("--out", type=Path, required=True, help="a file for the rows, a JSON object a line")
    add("--cost", type=int, default=470)
    add("--seeds", type=int, default=30)
    add("--worlds", type=int, default=2, help="seed of the worlds; 1: those of the defaults")
    add("--processes", type=int, default=2)
    add("--others", nargs="*", default=[], help="skillopt, gepa3, gepa8")
    add("--ours", action="append", metavar="NAME=JSON", default=[], help="settings of ours")
    add("--idle", action="store_true", help="rules do nothing: each confirmation is a false one")
    given = parser.parse_args()
    systems: dict[str, dict[str, Any]] = {name: {} for name in given.others}
    for text in given.ours or ([] if given.others else ["ours={}"]):
        name, _, settings = text.partition("=")
        systems[name] = json.loads(settings or "{}")
    drawn = [idle(world) if given.idle else world for world in worlds(given.worlds)]
    contests = [
        Contest(system, settings, number, world, seed, given.cost, given.envs)
        for number, world in enumerate(drawn)
        for seed in range(given.seeds)
        for system, settings in systems.items()
    ]
    rows = rows_of(given.out)
    done = {(row.system, row.world, row.seed) for row in rows}
    left = [one for one in contests if (one.system, one.number, one.seed) not in done]
    with ProcessPoolExecutor(given.processes) as pool, given.out.open("a") as out:
        for row in pool.map(run, left):
            out.write(json.dumps(asdict(row)) + "\n")
            out.flush()
            rows.append(row)
    wanted = {(one.system, one.number, one.seed) for one in contests}
    print(table([row for row in rows if (row.system, row.world, row.seed) in wanted]))


def rows_of(file: Path) -> list[Row]:
    """The rows in ``file``; none if there is no such file."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Row(**json.loads(line)) for line in lines]


def table(rows: Sequence[Row]) -> str:
    """A line for each system, and by how much ours leads the better of the others, by world.

    That better one is chosen in each world by its mean, which favours them.
    """
    systems = list(dict.fromkeys(row.system for row in rows))
    means = {
        (system, world): statistics.mean(gaps)
        for system in systems
        for world in range(COUNT)
        if (gaps := [row.true for row in rows if (row.system, row.world) == (system, world)])
    }
    others = [system for system in systems if system == "skillopt" or system in SHARE]
    lines = []
    for system in systems:
        own = [row for row in rows if row.system == system]
        line = [
            system,
            len(own),
            *map(statistics.mean, _columns(own)),
            min(row.true for row in own),
        ]
        leads = [
            score - max(means[other, world] for other in others)
            for (name, world), score in means.items()
            if name == system and others and system not in others
        ]
        lead, margin, least = math.nan, math.nan, math.nan
        if len(leads) > 1:
            lead, least = statistics.mean(leads), min(leads)
            margin = 2 * statistics.stdev(leads) / math.sqrt(len(leads))
        names = ("confirmed", "refuted", "false", *VERDICTS)
        counts = [sum(getattr(row, name) for row in own) for name in names]
        lines.append([*line, lead, margin, least, *counts])
    heads = [
        "system",
        "runs",
        "cost",
        "at 1",
        "at 20",
        "start",
        "true",
        "ceiling",
        "worst",
        "lead",
        "margin",
        "least",
        "confirmed",
        "refuted",
        "false",
        *VERDICTS,
    ]
    return aligned(heads, lines)


def _columns(rows: Sequence[Row]) -> tuple[list[float], ...]:
    return (
        [row.cost() for row in rows],
        [row.cost(1) for row in rows],
        [row.cost(20) for row in rows],
        [row.start for row in rows],
        [row.true for row in rows],
        [row.ceiling for row in rows],
    )


if __name__ == "__main__":
    main()
