"""Calibrate: how the gate does on this run's own tasks, with a skill that meets itself.

The current skill is attempted several times on the selection tasks. Two of these measurements
differ by nothing but chance, so that whatever the gate accepts between them is a false accept (an
A/A test). How often tasks are solved then says how often duels with dice would be won, for as many
of them as one likes: these give the rates for gains of any size, and for more tasks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from skillopt_ci.aio import map_ordered
from skillopt_ci.config.config import GateConfig
from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.model.types import Usage
from skillopt_ci.training.gate_simulation import rehearse, wins_first_round
from skillopt_ci.training.measure import decide, measure, tallies
from skillopt_ci.training.run_context import Bench, Run
from skillopt_ci.training.sequential_test import setup

# What a calibration found.


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to decide: how often it errs, and the attempts that one verdict takes.

    ``false_accepts`` is the share of skills that are as good as the current one and are accepted,
    ``worse_accepted`` that of skills that are worse by the effect, ``found`` that of skills that
    are better by it.
    """

    settings: GateConfig
    configured: bool
    false_accepts: float
    worse_accepted: float
    found: float
    attempts: float


@dataclass(frozen=True, slots=True)
class Need:
    """With ``attempts`` at most, ``tasks`` find the effect with probability ``found``.

    ``tasks`` is None where none of the numbers that were tried out does.
    """

    attempts: int
    tasks: int | None
    found: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The gate on a run's own tasks.

    ``mean`` is the skill's score over all draws, ``undecided`` the share of tasks that were solved
    in some draws and not in others. Of ``same_trials`` comparisons of the skill with itself,
    ``same_accepted`` were taken for a gain. ``rehearsals`` duels with dice were fought for each
    rate of a setting.
    """

    tasks: int
    draws: int
    effect: float
    mean: float
    undecided: float
    same_accepted: int
    same_trials: int
    rehearsals: int
    settings: tuple[Setting, ...]
    needs: tuple[Need, ...]
    usage: Usage
    simulated: bool


#: Duels with dice per setting; enough for the second digit of a rate.
_TRIALS = 600
_SEED = 20_240_229

#: Numbers of tasks and of attempts that are tried out, as multiples of what there is.
_MORE_TASKS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_ATTEMPTS = (1, 2, 3, 5)

#: A gain should be found with this probability.
POWER = 0.8


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be calibrated: for gains of ``effect``, by ``draws`` measurements."""

    effect: float
    draws: int


async def calibrate(run: Run, skill: str, plan: Plan) -> Calibration:
    """Measure ``skill`` and say how the configured gate, and others, would do."""
    if not run.config.evaluation.use_gate:
        raise UsageError(
            "There is nothing to calibrate: evaluation.use_gate is false.",
            hint="Set it to true, or see with -o evaluation.use_gate=true what a gate would do.",
        )
    meter = run.meter(Usage())
    async with run.bench("calibrate", meter) as bench:
        drawn = await _draws(run, skill, plan.draws, bench)
    rates = solved_at(drawn)
    settings = run.config.evaluation.gate
    own, other = _same_skill(run, skill, drawn)
    return Calibration(
        tasks=len(rates),
        draws=plan.draws,
        effect=plan.effect,
        mean=sum(rates) / len(rates),
        undecided=sum(0 < rate < 1 for rate in _raw(drawn)) / len(rates),
        same_accepted=own,
        same_trials=other,
        rehearsals=_TRIALS,
        settings=tuple(_settings(rates, settings, plan.effect)),
        needs=tuple(_needs(rates, settings, plan.effect)),
        usage=meter.total(),
        simulated=run.simulated,
    )


def solved_at(drawn: Sequence[Measurement]) -> list[float]:
    """How often each task is solved, drawn a little towards the mean: few attempts exaggerate."""
    raw = _raw(drawn)
    mean, draws = sum(raw) / len(raw), len(drawn)
    return [(rate * draws + mean) / (draws + 1) for rate in raw]


def _raw(drawn: Sequence[Measurement]) -> list[float]:
    names = [name for name in drawn[0].tasks if all(name in one.tasks for one in drawn)]
    if not names:
        raise UsageError("No selection task could be measured in every attempt.")
    return [sum(one.tasks[name][0] for one in drawn) / len(drawn) for name in names]


async def _draws(run: Run, skill: str, count: int, bench: Bench) -> list[Measurement]:
    async def one(number: int) -> Measurement:
        return await measure(
            skill,
            run.selection,
            runner=bench.runner,
            evaluation=run.config.evaluation,
            observer=run.observer,
            attempt=number,
        )

    return await map_ordered(one, range(count), limit=count)


def _same_skill(run: Run, skill: str, drawn: Sequence[Measurement]) -> tuple[int, int]:
    """In how many of the A/A tests the gate accepts; every pair of measurements is two of them."""
    evaluation, pairs = run.config.evaluation, list(permutations(drawn, 2))
    planned = [task.id for task in run.selection]
    accepted = 0
    for current, candidate in pairs:
        terms = setup(skill, planned, current, current, (), evaluation, decide)
        accepted += wins_first_round(terms, tallies(current), tallies(candidate))
    return accepted, len(pairs)


def _settings(rates: Sequence[float], configured: GateConfig, effect: float) -> Iterator[Setting]:
    for settings in _alternatives(configured):
        same = rehearse(rates, 0.0, settings, _TRIALS, _SEED)
        worse = rehearse(rates, -effect, settings, _TRIALS, _SEED)
        better = rehearse(rates, effect, settings, _TRIALS, _SEED)
        yield Setting(
            settings=settings,
            configured=settings == configured,
            false_accepts=same.accepted,
            worse_accepted=worse.accepted,
            found=better.accepted,
            attempts=(same.attempts + worse.attempts + better.attempts) / 3,
        )


def _alternatives(configured: GateConfig) -> Iterator[GateConfig]:
    yield configured
    for policy in ("strict", "paired", "sequential"):
        if policy != configured.policy:
            yield configured.model_copy(update={"policy": policy})


def _needs(rates: Sequence[float], configured: GateConfig, effect: float) -> Iterator[Need]:
    """The fewest tasks with which a gain is found, for each number of attempts."""
    repeated = configured.policy == "sequential"
    for attempts in _ATTEMPTS if repeated else (1,):
        settings = configured.model_copy(update={"attempts": attempts})
        for share in _MORE_TASKS:
            count = round(share * len(rates))
            wanted = [rates[number % len(rates)] for number in range(count)]
            found = rehearse(wanted, effect, settings, _TRIALS // 3, _SEED).accepted
            if found >= POWER:
                yield Need(attempts, count, found)
                break
        else:
            yield Need(attempts, None, found)
