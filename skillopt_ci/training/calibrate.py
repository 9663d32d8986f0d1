"""Calibrate: how the gate does on this run's own tasks, with a skill that meets itself.

The current skill is attempted several times on the selection tasks. These measurements differ by
chance alone: what the gate accepts between two of them is a false accept. How often tasks are
solved then gives the rates of simulated comparisons, for gains of any size and for more tasks.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations

from skillopt_ci.aio import map_ordered
from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.errors import UsageError
from skillopt_ci.ledger.records import Measurement
from skillopt_ci.model.types import Usage
from skillopt_ci.training.measure import Tally, measure, tallies, worth_in
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.sequential_test import (
    Answer,
    Ask,
    Outcome,
    Setup,
    Test,
    sequential_test,
    setup,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to decide: the shares accepted of skills as good, worse and better by the effect.

    ``attempts`` is what one verdict takes.
    """

    settings: GateConfig
    configured: bool
    false_accepts: float
    worse_accepted: float
    found: float
    attempts: float


@dataclass(frozen=True, slots=True)
class Need:
    """With ``attempts`` at most, ``tasks`` (None: none that was tried) find the effect so often."""

    attempts: int
    tasks: int | None
    found: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The gate on a run's own tasks, for gains of ``effect``, by ``draws`` measurements.

    ``undecided`` is the share of tasks that were solved in some draws and not in others;
    ``rehearsals`` were simulated for each rate of a setting.
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


#: Simulated comparisons per setting; enough for the second digit of a rate.
_TRIALS = 600
_SEED = 20_240_229

#: Numbers of tasks and of attempts that are tried out, as multiples of what there is.
_MORE_TASKS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_ATTEMPTS = (1, 2, 3, 5)

#: A gain should be found with this probability.
POWER = 0.8


async def calibrate(run: Run, skill: str, effect: float, draws: int) -> Calibration:
    """Measure ``skill`` ``draws`` times; say how the configured gate, and others, would do."""
    if not run.config.evaluation.use_gate:
        raise UsageError(
            "There is nothing to calibrate: evaluation.use_gate is false.",
            hint="Set it to true, or see with -o evaluation.use_gate=true what a gate would do.",
        )
    async with run.models("calibrate") as models:

        async def one(number: int) -> Measurement:
            return await measure(run, models, skill, run.selection, attempt=number)

        drawn = await map_ordered(one, range(draws), limit=draws)
    raw, settings = _solved(drawn), run.config.evaluation.gate
    mean = sum(raw) / len(raw)
    # a little towards the mean: few attempts exaggerate
    rates = [(rate * draws + mean) / (draws + 1) for rate in raw]
    pairs = list(permutations(drawn, 2))
    return Calibration(
        tasks=len(rates),
        draws=draws,
        effect=effect,
        mean=sum(rates) / len(rates),
        undecided=sum(0 < rate < 1 for rate in raw) / len(rates),
        same_accepted=sum(_accepts(run, skill, *pair) for pair in pairs),
        same_trials=len(pairs),
        rehearsals=_TRIALS,
        settings=tuple(_settings(rates, settings, effect)),
        needs=tuple(_needs(rates, settings, effect)),
        usage=models.meter.total(),
        simulated=run.simulated,
    )


def _solved(drawn: Sequence[Measurement]) -> list[float]:
    """How often each task was solved."""
    names = [name for name in drawn[0].tasks if all(name in one.tasks for one in drawn)]
    if not names:
        raise UsageError("No selection task could be measured in every attempt.")
    return [sum(one.tasks[name][0] for one in drawn) / len(drawn) for name in names]


def _accepts(run: Run, skill: str, current: Measurement, candidate: Measurement) -> bool:
    """Whether the gate accepts ``candidate`` in one round: further ones would need new attempts."""
    evaluation, planned = run.config.evaluation, [task.id for task in run.selection]
    once = {"attempts": 1, "early_stop": False}
    about = setup(skill, planned, current, current, (), evaluation)
    about = replace(about, settings=about.settings.model_copy(update=once))
    test = sequential_test(about, tallies(current), tallies(candidate))
    return _accepted(about, _ended(test, lambda _: Answer({})))


def _settings(rates: Sequence[float], configured: GateConfig, effect: float) -> Iterator[Setting]:
    for policy in dict.fromkeys((configured.policy, "strict", "paired", "sequential")):
        settings = configured.model_copy(update={"policy": policy})
        same, worse, better = (
            rehearse(rates, lift, settings, _TRIALS, _SEED) for lift in (0.0, -effect, effect)
        )
        yield Setting(
            settings=settings,
            configured=settings == configured,
            false_accepts=same[0],
            worse_accepted=worse[0],
            found=better[0],
            attempts=(same[1] + worse[1] + better[1]) / 3,
        )


def _needs(rates: Sequence[float], configured: GateConfig, effect: float) -> Iterator[Need]:
    """The fewest tasks with which a gain is found, for each number of attempts."""
    repeated = configured.policy == "sequential"
    for attempts in _ATTEMPTS if repeated else (1,):
        settings = configured.model_copy(update={"attempts": attempts})
        for share in _MORE_TASKS:
            count = round(share * len(rates))
            wanted = [rates[number % len(rates)] for number in range(count)]
            found = rehearse(wanted, effect, settings, _TRIALS // 3, _SEED)[0]
            if found >= POWER:
                yield Need(attempts, count, found)
                break
        else:
            yield Need(attempts, None, found)


# Simulated comparisons.


def rehearse(
    rates: Sequence[float], lift: float, settings: GateConfig, trials: int, seed: int
) -> tuple[float, float]:
    """The share accepted of tests of a candidate better by ``lift``, and the attempts each took."""
    known = {str(number): rate for number, rate in enumerate(rates)}
    better = dict(zip(known, lifted(rates, lift), strict=True))
    setup = Setup(
        order=tuple(sorted(known, key=lambda task: known[task])),
        eligible=frozenset(known),
        rates=known,
        worth=worth_in(Evaluation()),
        settings=settings,
    )
    dice, wins, made = random.Random(seed), 0, 0

    def drawn(rates: Mapping[str, float], tasks: Iterable[str]) -> dict[str, tuple[float, float]]:
        return {task: (float(dice.random() < rates[task]),) * 2 for task in tasks}

    def answer(ask: Ask) -> Answer:
        return Answer(drawn(better, dict(ask.candidate)), drawn(known, dict(ask.current)))

    for _ in range(trials):
        current = {task: Tally(*one) for task, one in drawn(known, known).items()}
        outcome = _ended(sequential_test(setup, current, {}), answer)
        wins += _accepted(setup, outcome)
        made += outcome.measured.candidate_attempts + outcome.measured.current_attempts
    return wins / trials, made / trials


def lifted(rates: Sequence[float], lift: float) -> list[float]:
    """Rates whose mean is higher by ``lift``: each task gains the same share of what it lacks."""
    room = [1 - rate if lift > 0 else rate for rate in rates]
    share = min(1.0, abs(lift) * len(rates) / sum(room)) if sum(room) else 0.0
    sign = 1 if lift > 0 else -1
    return [rate + sign * share * left for rate, left in zip(rates, room, strict=True)]


def _ended(test: Test, answer: Callable[[Ask], Answer]) -> Outcome:
    try:
        ask = next(test)
        while True:
            ask = test.send(answer(ask))
    except StopIteration as done:
        outcome: Outcome = done.value
    return outcome


def _accepted(setup: Setup, outcome: Outcome) -> bool:
    if setup.settings.policy != "strict":
        return outcome.convincing
    gain = sum(outcome.measured.differences(setup), Fraction()) + setup.bonus
    return outcome.end == "measured" and (gain >= 0 if setup.tie_wins else gain > 0)
