"""What all races and verdicts of a run say of its single edits, and how that came about."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.report.html_data import EditEffect, Effects
from skillopt_ci.training.edit_ablation import attribute, compared_in, rules_of

#: At so many moments the belief is told, the last one being now: each is a regression of its own.
_MOMENTS = 5
#: Beyond so many rules only the newest steps are looked at: a regression takes their third power.
_MOST_RULES = 120


def edit_effects(steps: Sequence[StepRecord]) -> Effects:
    """The effects of every edit that some comparison of the newest steps tells of."""
    looked_at = _newest(steps)
    found = defaultdict[tuple[int, int], list[EditEffect]](list)
    for end in _moments(len(looked_at)):
        for place, effect in _believed(looked_at[:end]):
            found[place].append(effect)
    return {place: tuple(effects) for place, effects in found.items()}


def _newest(steps: Sequence[StepRecord]) -> Sequence[StepRecord]:
    rules = set[str]()
    for number, record in enumerate(reversed(steps)):
        rules |= {rule for edit in record.proposal.edits for rule in rules_of(edit)}
        if len(rules) > _MOST_RULES:
            return steps[len(steps) - number :]
    return steps


def _moments(count: int) -> list[int]:
    return sorted({-(-count * part // _MOMENTS) for part in range(1, _MOMENTS + 1)} - {0})


def _believed(steps: Sequence[StepRecord]) -> Iterator[tuple[tuple[int, int], EditEffect]]:
    known = attribute(list(compared_in(steps)))
    for record in steps:
        for number, edit in enumerate(record.proposal.edits):
            rules = rules_of(edit)
            if any(rule in known.rules for rule in rules):
                believed = known.effect(rules)
                yield (
                    (record.step, number),
                    EditEffect(steps[-1].step, believed.mean, believed.sd, believed.helpful),
                )
