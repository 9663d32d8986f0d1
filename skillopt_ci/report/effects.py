"""Effects: what each rule adds to the score, estimated from the run's evaluations.

A Bayesian linear regression with a normal prior: an evaluation measures the sum of the effects of
the rules that its candidate added or removed.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from skillopt_ci.ledger.evidence import EditRecord
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.text import collapsed

#: Prior standard deviation of a rule's effect on the mean score.
_PRIOR_SD = 0.08
#: Lower bound for a score's variance, since a few attempts can understate it.
_LEAST_VARIANCE = 0.04
#: Older steps are ignored: the time for an evaluation grows with the square of the rules.
_NEWEST_STEPS = 40


class Effect(NamedTuple):
    """A normal distribution."""

    mean: float
    sd: float

    @property
    def helpful(self) -> float:
        """The probability that the effect is above zero."""
        return NormalDist().cdf(self.mean / self.sd) if self.sd else 0.5


#: What an edit adds to the mean score, by its step and its index in that step, from 0.
Effects = Mapping[tuple[int, int], Effect]


def edit_effects(steps: Sequence[StepRecord]) -> Effects:
    newest = steps[-_NEWEST_STEPS:]
    means, shared = believe(list(_evaluations(newest)), _PRIOR_SD)
    found = dict[tuple[int, int], Effect]()
    for record in newest:
        for number, edit in enumerate(record.proposal.edits):
            known = {rule: sign for rule, sign in _rules_of(edit).items() if rule in means}
            variance = sum(
                sign * other_sign * shared[rule][other]
                for rule, sign in known.items()
                for other, other_sign in known.items()
            )
            if known:
                mean = sum(sign * means[rule] for rule, sign in known.items())
                found[record.step, number] = Effect(mean, math.sqrt(max(variance, 0.0)))
    return found


class Observation(NamedTuple):
    """``value`` is the weighted sum of effects, measured with ``variance``."""

    weights: Mapping[str, float]
    value: float
    variance: float


def _evaluations(records: Iterable[StepRecord]) -> Iterator[Observation]:
    for record in records:
        decision = record.decision
        if decision is None or decision.partial or decision.reused_from is not None:
            continue  # scores that are used again are in an earlier comparison
        gate, rules = decision.gate, dict[str, float]()
        for edit in record.proposal.applied_edits:
            for rule, amount in _rules_of(edit).items():
                rules[rule] = rules.get(rule, 0.0) + amount
        if gate and rules and gate.compared:
            variance = max((gate.standard_error or 0.0) ** 2, 2 * _LEAST_VARIANCE / gate.compared)
            yield Observation(rules, gate.difference, variance)


def _rules_of(edit: EditRecord) -> dict[str, float]:
    op, rules = edit.op.strip().lower(), dict[str, float]()
    if op != "delete" and (brought := collapsed(edit.content)):
        rules[brought] = 1.0
    if op in ("delete", "replace") and (gone := collapsed(edit.target)):
        rules[gone] = rules.get(gone, 0.0) - 1.0
    return rules


def believe(
    observations: Sequence[Observation], prior_sd: float
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Means and covariances of effects with a normal prior around 0, after all ``observations``.

    The conjugate update of a normal prior by normal measurements (Bishop, Pattern Recognition and
    Machine Learning, 2006, 3.3), in Kalman's form, which inverts no matrix.
    """
    names = tuple(dict.fromkeys(name for one in observations for name in one.weights))
    means = dict.fromkeys(names, 0.0)
    shared = {one: {other: (one == other) * prior_sd**2 for other in names} for one in names}
    for seen in observations:
        told = seen.weights.items()
        with_sum = {
            name: sum(shared[name][part] * weight for part, weight in told) for name in names
        }
        surprise = seen.value - sum(means[part] * weight for part, weight in told)
        variance = seen.variance + sum(with_sum[part] * weight for part, weight in told)
        for name in names:
            gain = with_sum[name] / variance
            means[name] += gain * surprise
            for other in names:
                shared[name][other] -= gain * with_sum[other]
    return means, shared
