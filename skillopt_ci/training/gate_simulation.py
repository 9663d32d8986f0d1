"""How often a gate errs and what it takes, from known results or simulated ones."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from skillopt_ci.config.config import Evaluation, GateConfig
from skillopt_ci.training.measure import Tallies, Tally, worth_in
from skillopt_ci.training.sequential_test import Answer, Ask, Outcome, Setup, sequential_test


def wins_first_round(setup: Setup, current: Tallies, candidate: Tallies) -> bool:
    """Whether ``candidate`` wins its first round; further rounds would need new attempts."""
    once = setup.settings.model_copy(update={"attempts": 1, "early_stop": False})
    about = replace(setup, settings=once)
    test = sequential_test(about, current, candidate)
    try:
        next(test)
        while True:
            test.send(Answer({}))
    except StopIteration as done:
        outcome = done.value
    if once.policy != "strict":
        return bool(outcome.convincing)
    gain = sum(outcome.measured.differences(about), Fraction()) + about.bonus
    return gain >= 0 if about.tie_wins else gain > 0


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Of ``trials`` tests, the share that was accepted and the attempts that one took."""

    trials: int
    accepted: float
    attempts: float


def rehearse(
    rates: Sequence[float], lift: float, settings: GateConfig, trials: int, seed: int
) -> Rehearsed:
    """Let a candidate that is better by ``lift`` meet a skill that solves tasks at ``rates``."""
    known = {str(number): rate for number, rate in enumerate(rates)}
    better = dict(zip(known, lifted(rates, lift), strict=True))
    dice, wins, made = random.Random(seed), 0, 0
    for _ in range(trials):
        outcome, attempts = _run_test(known, better, settings, dice)
        wins += _wins(outcome, settings)
        made += attempts
    return Rehearsed(trials, wins / trials, made / trials)


def lifted(rates: Sequence[float], lift: float) -> list[float]:
    """Rates whose mean is higher by ``lift``, as far as there is room for it.

    Every task gains the same share of what is left to gain on it (or loses, for a negative lift).
    """
    room = [1 - rate if lift > 0 else rate for rate in rates]
    share = min(1.0, abs(lift) * len(rates) / sum(room)) if sum(room) else 0.0
    sign = 1 if lift > 0 else -1
    return [rate + sign * share * left for rate, left in zip(rates, room, strict=True)]


def _run_test(
    known: Mapping[str, float],
    better: Mapping[str, float],
    settings: GateConfig,
    dice: random.Random,
) -> tuple[Outcome, int]:
    current = {task: _draw(rate, dice) for task, rate in known.items()}
    setup = Setup(
        order=tuple(sorted(known, key=lambda task: known[task])),
        eligible=frozenset(known),
        rates=known,
        worth=worth_in(Evaluation()),
        settings=settings,
    )
    test, made = sequential_test(setup, {task: Tally(*one) for task, one in current.items()}, {}), 0
    try:
        ask: Ask = next(test)
        while True:
            made += len(ask.candidate) + len(ask.current)
            ask = test.send(
                Answer(
                    {task: _draw(better[task], dice) for task, _ in ask.candidate},
                    {task: _draw(known[task], dice) for task, _ in ask.current},
                )
            )
    except StopIteration as done:
        outcome: Outcome = done.value
    return outcome, made


def _wins(outcome: Outcome, settings: GateConfig) -> bool:
    if settings.policy != "strict":
        return outcome.convincing
    both = (outcome.measured.candidate, outcome.measured.current)
    ours, theirs = (sum(Fraction(one[task].hard) for task in both[0]) for one in both)
    return outcome.end == "measured" and ours > theirs


def _draw(rate: float, dice: random.Random) -> tuple[float, float]:
    score = float(dice.random() < rate)
    return score, score
