"""Rehearsal: duels with dice in place of models, to see how often a gate errs and what it takes."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from skillopt_ci.config.config import Evaluation, GateSettings
from skillopt_ci.training.gates.duel import Answer, Ask, Outcome, Terms, duel
from skillopt_ci.training.gates.tally import Tally, worth_in


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Of ``trials`` duels, the share that was accepted and the attempts that one took."""

    trials: int
    accepted: float
    attempts: float


def rehearse(
    rates: Sequence[float], lift: float, settings: GateSettings, trials: int, seed: int
) -> Rehearsed:
    """Let a candidate that is better by ``lift`` meet a skill that solves tasks at ``rates``."""
    known = {str(number): rate for number, rate in enumerate(rates)}
    better = dict(zip(known, lifted(rates, lift), strict=True))
    dice, wins, made = random.Random(seed), 0, 0
    for _ in range(trials):
        outcome, attempts = _fight(known, better, settings, dice)
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


def _fight(
    known: Mapping[str, float],
    better: Mapping[str, float],
    settings: GateSettings,
    dice: random.Random,
) -> tuple[Outcome, int]:
    current = {task: _draw(rate, dice) for task, rate in known.items()}
    terms = Terms(
        order=tuple(sorted(known, key=lambda task: known[task])),
        eligible=frozenset(known),
        rates=known,
        worth=worth_in(Evaluation()),
        settings=settings,
    )
    battle, made = duel(terms, {task: Tally(*one) for task, one in current.items()}, {}), 0
    try:
        ask: Ask = next(battle)
        while True:
            made += len(ask.candidate) + len(ask.current)
            ask = battle.send(
                Answer(
                    {task: _draw(better[task], dice) for task, _ in ask.candidate},
                    {task: _draw(known[task], dice) for task, _ in ask.current},
                )
            )
    except StopIteration as done:
        outcome: Outcome = done.value
    return outcome, made


def _wins(outcome: Outcome, settings: GateSettings) -> bool:
    if settings.policy != "strict":
        return outcome.convincing
    both = (outcome.standoff.candidate, outcome.standoff.current)
    ours, theirs = (sum(Fraction(one[task].hard) for task in both[0]) for one in both)
    return outcome.end == "measured" and ours > theirs


def _draw(rate: float, dice: random.Random) -> tuple[float, float]:
    score = float(dice.random() < rate)
    return score, score
