"""An epoch's end as rows of a table: at a glance, and all of it."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import BoundaryRecord, Decision, MetaSkillRecord, SlowUpdateRecord
from skillopt_ci.report.accounts import stage_rows
from skillopt_ci.report.arithmetic import after_text, arithmetic
from skillopt_ci.report.boundary import boundary_gist, boundary_reason, categories
from skillopt_ci.report.figures import names_text, score, usage_text
from skillopt_ci.report.verdict import verdict

_Rows = Iterator[tuple[str, str]]


def boundary_title(record: BoundaryRecord) -> str:
    """What the table is about."""
    note = " (simulated models)" if record.simulated else ""
    return f"End of epoch {record.epoch}, after step {record.step}{note}"


def boundary_verdict(record: BoundaryRecord) -> str:
    """Whether the skill changed, in a word or two."""
    if record.decision is None:
        return "in flight" if record.changed else "nothing changed"
    return verdict(record.decision.action, record.decision.score_after)


def boundary_rows(record: BoundaryRecord, seconds: float) -> tuple[tuple[str, str], ...]:
    """An epoch's end at a glance."""
    return (
        ("verdict", boundary_verdict(record)),
        ("because", boundary_reason(record)),
        ("compared", _compared(record)),
        ("did", boundary_gist(record)),
        ("used", f"{usage_text(record.usage.usage())}, {seconds:.1f} s"),
    )


def boundary_rows_in_full(record: BoundaryRecord) -> tuple[tuple[str, str], ...]:
    """All of an epoch's end, for `show`."""
    return (
        ("verdict", boundary_verdict(record)),
        ("because", boundary_reason(record)),
        *(_decision_rows(record.decision) if record.decision else ()),
        ("compared", _compared(record)),
        *_pair_rows(record),
        *(_slow_rows(record.slow_update) if record.slow_update else ()),
        *(_meta_rows(record.meta_skill) if record.meta_skill else ()),
        ("used", usage_text(record.usage.usage())),
        *stage_rows(record.accounts, record.usage, record.stages),
    )


def _compared(record: BoundaryRecord) -> str:
    if not record.pairs:
        return "nothing to compare"
    change = f"{score(record.previous_hard)} → {score(record.current_hard)}"
    return f"{change} on {len(record.pairs)} training tasks: {categories(record)}"


def _pair_rows(record: BoundaryRecord) -> _Rows:
    for category in dict.fromkeys(pair.category for pair in record.pairs):
        ids = [pair.id for pair in record.pairs if pair.category == category]
        yield f"  {category.replace('_', ' ')}", names_text(ids)


def _decision_rows(decision: Decision) -> _Rows:
    yield "before", score(decision.score_before)
    measured = decision.measurement
    if measured is not None:
        yield "after", after_text(decision)
        yield from (("arithmetic", told) for told in [arithmetic(decision)] if told)
        yield "fixed", names_text(decision.fixed)
        yield "broken", names_text(decision.broken)


def _slow_rows(slow: SlowUpdateRecord) -> _Rows:
    yield "old guidance", slow.previous_content or "–"
    yield "guidance", slow.content or "–"
    yield from _words(slow)


def _meta_rows(meta: MetaSkillRecord) -> _Rows:
    yield "meta skill", meta.content or "–"
    yield from _words(meta)


def _words(part: SlowUpdateRecord | MetaSkillRecord) -> _Rows:
    if part.refused:
        yield "refused", part.refused
    if part.reasoning:
        yield "reasoning", part.reasoning
