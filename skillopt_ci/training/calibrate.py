"""Calibrate: how often the gate errs on this run's own tasks.

The current skill is attempted several times on the selection tasks. These measurements differ by
chance alone: what the gate accepts between two of them is a false accept. How often tasks are
solved then gives the rates of simulated comparisons, for gains of any size and for more tasks.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from skillopt_ci.aio import map_ordered
from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.model.types import Usage
from skillopt_ci.training.gate import compare
from skillopt_ci.training.measure import measure
from skillopt_ci.training.run_context import Run


@dataclass(frozen=True, slots=True)
class Rates:
    """The shares accepted, with so many ``tasks``, of skills as good, worse and better."""

    tasks: int
    same: float
    worse: float
    better: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The gate on a run's own tasks, for gains of ``effect``, by ``draws`` measurements.

    ``undecided`` is the share of tasks that were solved in some draws and not in others;
    ``trials`` comparisons were simulated for each rate.
    """

    tasks: int
    draws: int
    effect: float
    mean: float
    undecided: float
    same_accepted: int
    same_compared: int
    trials: int
    rates: tuple[Rates, ...]
    usage: Usage
    simulated: bool


#: Simulated comparisons for each rate; enough for the second digit.
_TRIALS = 600
_SEED = 20_240_229
#: Numbers of tasks that are tried out, as multiples of what there is.
_MORE_TASKS = (1, 2, 4)


async def calibrate(run: Run, skill: str, effect: float, draws: int) -> Calibration:
    if not run.config.evaluation.use_gate:
        raise UsageError(
            "There is nothing to calibrate: evaluation.use_gate is false.",
            hint="Set it to true, or see with -o evaluation.use_gate=true what a gate would do.",
        )
    async with run.models("calibrate") as models:

        async def one(number: int) -> Measurement:
            return await measure(run, models, skill, run.selection, attempt=number)

        drawn = await map_ordered(one, range(draws), limit=draws)
    raw = _solved(drawn)
    mean = sum(raw) / len(raw)
    # a little towards the mean: few attempts exaggerate
    rates = [(rate * draws + mean) / (draws + 1) for rate in raw]
    pairs = list(permutations(drawn, 2))
    accepted = (compare(new, old, old, run.config.evaluation).stays for old, new in pairs)
    return Calibration(
        tasks=len(rates),
        draws=draws,
        effect=effect,
        mean=sum(rates) / len(rates),
        undecided=sum(0 < rate < 1 for rate in raw) / len(rates),
        same_accepted=sum(accepted),
        same_compared=len(pairs),
        trials=_TRIALS,
        rates=tuple(
            Rates(
                len(rates) * times,
                *(accepted_share(rates * times, lift) for lift in (0.0, -effect, effect)),
            )
            for times in _MORE_TASKS
        ),
        usage=models.meter.total(),
        simulated=run.simulated,
    )


def _solved(drawn: Sequence[Measurement]) -> list[float]:
    names = [name for name in drawn[0].tasks if all(name in one.tasks for one in drawn)]
    if not names:
        raise UsageError("No selection task could be measured in every attempt.")
    return [sum(one.tasks[name][0] for one in drawn) / len(drawn) for name in names]


def accepted_share(rates: Sequence[float], lift: float) -> float:
    """The share of simulated candidates, better by ``lift``, that come out above the incumbent."""
    dice, better = random.Random(_SEED), lifted(rates, lift)

    def solved(chances: Sequence[float]) -> int:
        return sum(dice.random() < chance for chance in chances)

    return sum(solved(better) > solved(rates) for _ in range(_TRIALS)) / _TRIALS


def lifted(rates: Sequence[float], lift: float) -> list[float]:
    """Rates whose mean is higher by ``lift``: each task gains the same share of what it lacks."""
    room = [1 - rate if lift > 0 else rate for rate in rates]
    share = min(1.0, abs(lift) * len(rates) / sum(room)) if sum(room) else 0.0
    sign = 1 if lift > 0 else -1
    return [rate + sign * share * left for rate, left in zip(rates, room, strict=True)]
