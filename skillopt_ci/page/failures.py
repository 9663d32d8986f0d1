"""The failure patterns of a step, each once: analysts of several minibatches may name the same."""

from collections.abc import Iterable

from skillopt_ci.ledger.records import PatternRecord


def failures(patterns: Iterable[PatternRecord]) -> tuple[PatternRecord, ...]:
    """Patterns of one description together, the most frequent first."""
    found: dict[str, PatternRecord] = {}
    for one in patterns:
        known = found.get(one.description)
        found[one.description] = one if known is None else _together(known, one)
    return tuple(sorted(found.values(), key=lambda one: -one.count))


def _together(one: PatternRecord, other: PatternRecord) -> PatternRecord:
    return PatternRecord(
        description=one.description,
        count=one.count + other.count,
        task_ids=tuple(dict.fromkeys((*one.task_ids, *other.task_ids))),
    )
