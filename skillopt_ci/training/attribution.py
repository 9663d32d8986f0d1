"""Attribution: what single rules do to the score, by all comparisons that were recorded.

A rule is a text that edits put into the document or take out of it. Every subset that was raced
and every candidate that was measured in full tells something about the sum of its rules' effects;
a linear model shares it out among them. Effects that depend on one another are beyond it, which is
why it only proposes: what leaves or enters the document passes the gate.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from skillopt_ci.ledger.records import EditRecord, GateRecord, HeatRecord, StepRecord
from skillopt_ci.skill.edits import Edit
from skillopt_ci.stats import Belief, Effect, Observation, believe

#: How far from 0 a rule's effect on the mean score is thought to be before it was tried.
PRIOR_SD = 0.08

#: The variance of a score is never believed to be less, for want of attempts to show it.
_LEAST_VARIANCE = 0.04


@dataclass(frozen=True, slots=True)
class Comparison:
    """A measured difference of scores, and how much more of each rule was in force."""

    rules: Mapping[str, float]
    difference: float
    variance: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """What is believed of all rules that were ever tried."""

    rules: tuple[str, ...]
    belief: Belief

    def effect(self, rules: Mapping[str, float]) -> Effect:
        """What the change does that brings ``rules`` in (1) and takes them out (-1)."""
        return self.belief.effect([rules.get(rule, 0.0) for rule in self.rules])


def attribute(comparisons: Sequence[Comparison], rules: Iterable[str] = ()) -> Attribution:
    """The belief that follows from ``comparisons``; it also covers ``rules``."""
    named = chain((rule for one in comparisons for rule in one.rules), rules)
    names = tuple(dict.fromkeys(named))
    seen = [
        Observation([one.rules.get(name, 0.0) for name in names], one.difference, one.variance)
        for one in comparisons
    ]
    return Attribution(names, believe(seen, len(names), PRIOR_SD))


def rules_of(edit: Edit | EditRecord) -> dict[str, float]:
    """What an edit brings in and takes out."""
    op, rules = edit.op.strip().lower(), dict[str, float]()
    if op != "delete" and (brought := rule_name(edit.content)):
        rules[brought] = 1.0
    if op in ("delete", "replace") and (gone := rule_name(edit.target)):
        rules[gone] = rules.get(gone, 0.0) - 1.0
    return rules


def rule_name(text: str) -> str:
    """A rule's text, spacing apart."""
    return " ".join(text.split())


def compared_in(records: Iterable[StepRecord]) -> Iterator[Comparison]:
    """What the steps' races and verdicts tell."""
    for record in records:
        edits = record.proposal.edits
        if record.proposal.race is not None:
            for heat in record.proposal.race.heats:
                yield from compared_in_heat(heat, list(map(rules_of, edits)))
        decision = record.decision
        if decision is not None and decision.gate is not None and not decision.partial:
            yield from _compared_at_gate(decision.gate, edits)


def compared_in_heat(
    heat: HeatRecord, rules: Sequence[Mapping[str, float]]
) -> Iterator[Comparison]:
    """Each subset against the mean of all subsets, on the tasks that both were tried on."""
    arms = [arm for arm in heat.arms if arm.scores]
    if not arms:
        return
    means = _task_means([arm.scores for arm in arms])
    usual = {n: sum(n in arm.edits for arm in arms) / len(arms) for n in range(len(rules))}
    variance = max(_LEAST_VARIANCE, _variance([arm.scores for arm in arms], means))
    for arm in arms:
        gains = [score - means[task] for task, score in arm.scores.items()]
        present = {n: (n in arm.edits) - share for n, share in usual.items()}
        yield Comparison(
            _summed((rules[n], weight) for n, weight in present.items() if weight),
            math.fsum(gains) / len(gains),
            variance / len(gains),
        )


def _compared_at_gate(gate: GateRecord, edits: Sequence[EditRecord]) -> Iterator[Comparison]:
    rules = _summed((rules_of(edit), 1.0) for edit in edits if edit.applied)
    if rules and gate.compared:
        error = gate.standard_error or 0.0
        yield Comparison(rules, gate.difference, max(error**2, 2 * _LEAST_VARIANCE / gate.compared))


def _summed(parts: Iterable[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for rules, weight in parts:
        for rule, amount in rules.items():
            total[rule] = total.get(rule, 0.0) + weight * amount
    return total


def _task_means(arms: Sequence[Mapping[str, float]]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for scores in arms:
        for task, score in scores.items():
            found.setdefault(task, []).append(score)
    return {task: math.fsum(scores) / len(scores) for task, scores in found.items()}


def _variance(arms: Sequence[Mapping[str, float]], means: Mapping[str, float]) -> float:
    """The variance of one attempt at a task, whichever subset it was made under."""
    squares = [(score - means[task]) ** 2 for arm in arms for task, score in arm.items()]
    return math.fsum(squares) / max(1, len(squares) - len(means))
