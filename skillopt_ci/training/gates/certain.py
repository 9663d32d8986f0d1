"""When the rejection of a candidate is certain before all tasks are measured."""

from collections.abc import Sequence
from fractions import Fraction

from skillopt_ci.stats import sign_flip_p


def cannot_win(
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
