"""No-regression guard: a gain on the whole may not be paid for by one type of task."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from skillopt_ci.training.gates.duel import Standoff, Terms


def losses(
    standoff: Standoff, terms: Terms, types: Mapping[str, str], allowed: float | None
) -> dict[str, float]:
    """The types of task whose mean score fell by more than ``allowed``, and by how much.

    Tasks without a type are no type. None allows any loss.
    """
    if allowed is None:
        return {}
    groups: dict[str, list[Fraction]] = {}
    for task in terms.order:
        if task in terms.eligible and task in standoff.candidate and types.get(task):
            ours, theirs = standoff.candidate[task], standoff.current[task]
            groups.setdefault(types[task], []).append(terms.worth(ours) - terms.worth(theirs))
    limit = Fraction(allowed).limit_denominator(1_000_000)
    lost = {kind: -_mean(differences) for kind, differences in sorted(groups.items())}
    return {kind: float(loss) for kind, loss in lost.items() if loss > limit}


def _mean(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction()) / len(values)
