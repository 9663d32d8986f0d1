"""When a candidate would hardly be accepted any more: stopping then can only lower false accepts.

The chance is that of a candidate that is better by the gain worth finding (stochastic curtailment,
Lan, Simon and Halperin, 1982), foreseen with the rates at which the tasks were solved so far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from skillopt_ci.stats import normal_threshold

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class ToCome:
    """A task that is still to be measured: its score under the current skill, its usual score."""

    current: float
    rate: float


@dataclass(frozen=True, slots=True)
class Aim:
    """What is to be shown: a gain above ``margin`` at ``alpha``, if the gain really is ``effect``.

    ``rounds`` are left after this one (``done`` with this one), in which noise averages out.
    """

    margin: float
    effect: float
    alpha: float
    done: int = 1
    rounds: int = 0


def chance(seen: Sequence[Fraction], to_come: Sequence[ToCome], aim: Aim) -> float:
    """The chance that the round ends in acceptance, or where another round is worth while."""
    known = [float(one) - aim.margin for one in seen]
    rates = [min(1.0, task.rate + aim.effect) for task in to_come]
    means = [rate - task.current - aim.margin for rate, task in zip(rates, to_come, strict=True)]
    variance = math.fsum(rate * (1 - rate) for rate in rates)
    squares = math.fsum(one * one for one in (*known, *means)) + variance
    expected = math.fsum((*known, *means))
    needed = _needed(squares, len(known) + len(means), aim)
    if variance == 0:
        return float(expected >= needed)
    return _NORMAL.cdf((expected - needed) / math.sqrt(variance))


def _needed(squares: float, count: int, aim: Aim) -> float:
    """The sum of differences that is accepted, or that leaves hope for the rounds to come."""
    accepted = normal_threshold(squares, aim.alpha)
    if not aim.rounds or count == 0:
        return accepted
    share = aim.done / (aim.done + aim.rounds)
    final = accepted * math.sqrt(share)
    spread = math.sqrt(squares * share * (1 - share))
    hoped = (aim.effect - aim.margin) * count * (1 - share)
    return min(accepted, (final - hoped - spread * _HOPE) / share)


#: How many standard deviations of luck the rounds to come may bring.
_HOPE = 1.0
