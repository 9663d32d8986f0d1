"""When a candidate's rejection is certain, or acceptance unlikely, before all is measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

from skillopt_ci.stats import normal_threshold, sign_flip_p


def certain_rejection(
    seen: Sequence[Fraction], room: Sequence[Fraction], bonus: Fraction, *, tie_wins: bool
) -> bool:
    """Whether a higher mean is out of reach, whatever the tasks that are left come to.

    ``seen`` are differences of scores, candidate minus current, ``room`` the most that each task
    still to come can add, ``bonus`` what the candidate is ahead by besides tasks (or behind, when
    negative). Any of the tasks to come may also end in an error and count for neither side. If
    ``tie_wins``, an equal mean is a win as well.
    """
    total, count = sum(seen, Fraction()), len(seen)
    best = [total, *_running(total, sorted(room, reverse=True))]
    # the sign of gain / (count + more) + bonus, without dividing fractions
    leads = (gain + bonus * (count + more) for more, gain in enumerate(best) if count + more)
    return all(lead < 0 if tie_wins else lead <= 0 for lead in leads)


def cannot_convince(
    seen: Sequence[Fraction], room: Sequence[Fraction], alpha: float, margin: Fraction
) -> bool:
    """Whether the sign-flip test's p cannot reach ``alpha``, whatever the tasks that are left.

    ``margin`` is the gain that the test must be sure of. The p-value never rises with a
    difference, so that the best outcome of each task decides.
    """
    best = [one - margin for one in seen] + [max(one - margin, Fraction()) for one in room]
    return sign_flip_p(best) > alpha


def _running(total: Fraction, gains: Sequence[Fraction]) -> list[Fraction]:
    sums: list[Fraction] = []
    for gain in gains:
        total += gain
        sums.append(total)
    return sums


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
