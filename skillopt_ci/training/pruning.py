"""Pruning: rules that did harm, by all that was measured, are put up for removal."""

from collections.abc import Iterable, Sequence

from skillopt_ci.ledger.records import EditRecord, StepRecord
from skillopt_ci.skill.edits import Edit
from skillopt_ci.training.attribution import Comparison, attribute, rule_name

#: Most rules that are put up for removal at once.
_MOST = 4


def removals(
    skill: str, records: Sequence[StepRecord], past: Sequence[Comparison], sure: float
) -> tuple[Edit, ...]:
    """Deletions of rules that are harmful with a probability of at least ``sure``, worst first.

    Only texts that an edit of this run brought in, and that stand in ``skill`` as they were
    written, are proposed: nothing else was ever measured alone.
    """
    if sure >= 1:
        return ()
    brought = {rule_name(edit.content): edit.content.strip() for edit in _applied(records)}
    known = attribute(past)
    doubtful = [
        (effect.helpful, text)
        for rule, text in brought.items()
        if rule and text in skill and rule in known.rules
        for effect in (known.effect({rule: 1.0}),)
        if 1 - effect.helpful >= sure
    ]
    return tuple(
        Edit("delete", target=text, source_type="attribution", support_count=0)
        for _, text in sorted(doubtful)[:_MOST]
    )


def _applied(records: Iterable[StepRecord]) -> Iterable[EditRecord]:
    return (edit for one in records for edit in one.proposal.edits if edit.applied)
