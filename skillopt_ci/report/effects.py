"""Effects: what each rule of a skill adds to the score, by all evaluations of the run.

A Bayesian linear regression with a normal prior: an evaluation measures the sum of the effects of
the rules that its candidate brought in or took out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist

from skillopt_ci.ledger.records import EditRecord, StepRecord
from skillopt_ci.text import one_line

#: What an edit adds to the mean score, by the step that proposed it and its number from 0.
Effects = Mapping[tuple[int, int], "Effect"]

#: How far from 0 a rule's effect on the mean score is thought to be before it was tried.
_PRIOR_SD = 0.08
#: The variance of a score is never believed to be less, for want of attempts to show it.
_LEAST_VARIANCE = 0.04
#: Beyond so many rules only the newest steps are looked at: a regression takes their third power.
_MOST_RULES = 120


def edit_effects(steps: Sequence[StepRecord]) -> Effects:
    """What evaluations of the newest steps say of every edit."""
    rules, start = set[str](), len(steps)
    for record in reversed(steps):
        rules |= {rule for edit in record.proposal.edits for rule in _rules_of(edit)}
        if len(rules) > _MOST_RULES:
            break
        start -= 1
    known = believe(list(_evaluations(steps[start:])), _PRIOR_SD)
    return {
        (record.step, number): known.effect(_rules_of(edit))
        for record in steps[start:]
        for number, edit in enumerate(record.proposal.edits)
        if any(rule in known.means for rule in _rules_of(edit))
    }


def _evaluations(records: Iterable[StepRecord]) -> Iterator["Observation"]:
    """What complete evaluations say of the sum of the rules that they tried."""
    for record in records:
        decision = record.decision
        if decision is None or decision.gate is None or decision.partial:
            continue
        gate, rules = decision.gate, dict[str, float]()
        for edit in record.proposal.edits:
            for rule, amount in _rules_of(edit).items() if edit.applied else ():
                rules[rule] = rules.get(rule, 0.0) + amount
        if rules and gate.compared:
            error = gate.standard_error or 0.0
            variance = max(error**2, 2 * _LEAST_VARIANCE / gate.compared)
            yield Observation(rules, gate.difference, variance)


def _rules_of(edit: EditRecord) -> dict[str, float]:
    """What an edit brings in and takes out; a rule is called by its text, spacing apart."""
    op, rules = edit.op.strip().lower(), dict[str, float]()
    if op != "delete" and (brought := one_line(edit.content)):
        rules[brought] = 1.0
    if op in ("delete", "replace") and (gone := one_line(edit.target)):
        rules[gone] = rules.get(gone, 0.0) - 1.0
    return rules


# Bayesian linear regression with a Gaussian prior: what each part of a sum is worth.


@dataclass(frozen=True, slots=True)
class Observation:
    """``value`` is the sum of effects in their weights, measured with the given ``variance``."""

    weights: Mapping[str, float]
    value: float
    variance: float


@dataclass(frozen=True, slots=True)
class Effect:
    """What is believed of an effect: a normal distribution."""

    mean: float
    sd: float

    @property
    def helpful(self) -> float:
        """The probability that the effect is above zero."""
        return NormalDist().cdf(self.mean / self.sd) if self.sd else 0.5


@dataclass(frozen=True, slots=True)
class Belief:
    """A joint normal distribution of named effects: means, and the root of the precision."""

    means: Mapping[str, float]
    root: Sequence[Sequence[float]]

    def effect(self, weights: Mapping[str, float]) -> Effect:
        """That of all effects in their ``weights``; unknown ones count nothing."""
        row = [weights.get(name, 0.0) for name in self.means]
        mean = sum(a * b for a, b in zip(row, self.means.values(), strict=True))
        half = _forward(self.root, row)
        return Effect(mean, math.sqrt(sum(value * value for value in half)))


def believe(observations: Sequence[Observation], prior_sd: float) -> Belief:
    """The posterior of effects with a normal prior around 0.

    The conjugate update of normal beliefs by normal measurements (Bishop, Pattern Recognition and
    Machine Learning, 2006, 3.3).
    """
    names = chain.from_iterable(one.weights for one in observations)
    places = {name: n for n, name in enumerate(dict.fromkeys(names))}
    size = len(places)
    precision = [[float(i == j) / prior_sd**2 for j in range(size)] for i in range(size)]
    pull = [0.0] * size
    for seen in observations:
        told = [(places[name], weight) for name, weight in seen.weights.items() if weight]
        for i, weight in told:
            pull[i] += weight * seen.value / seen.variance
            for j, other in told:
                precision[i][j] += weight * other / seen.variance
    root = _cholesky(precision)
    means = _backward(root, _forward(root, pull))
    return Belief(dict(zip(places, means, strict=True)), root)


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The lower triangle whose product with itself is ``matrix``."""
    lower: list[list[float]] = []
    for i, row in enumerate(matrix):
        mine = _forward(lower, row[:i])
        mine.append(math.sqrt(row[i] - sum(value * value for value in mine)))
        lower.append(mine)
    return lower


def _forward(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    solved: list[float] = []
    for row, value in zip(lower, right, strict=True):
        solved.append((value - sum(a * b for a, b in zip(row, solved, strict=False))) / row[-1])
    return solved


def _backward(lower: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    solved = [0.0] * len(right)
    for i in reversed(range(len(right))):
        later = sum(lower[j][i] * solved[j] for j in range(i + 1, len(right)))
        solved[i] = (right[i] - later) / lower[i][i]
    return solved
