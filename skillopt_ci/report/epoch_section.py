"""An epoch's end in a comment: the slow update, and the pairs of tasks that it looked at."""

from collections.abc import Iterator, Sequence

from skillopt_ci.ledger.records import BoundaryRecord, PairRecord
from skillopt_ci.report.accounts import stage_gist
from skillopt_ci.report.arithmetic import after_text, arithmetic
from skillopt_ci.report.boundary import boundary_reason, categories
from skillopt_ci.report.boundary_page import boundary_verdict
from skillopt_ci.report.figures import score, usage_text
from skillopt_ci.report.links import Links
from skillopt_ci.report.markdown import block, code, codes, details, inline, quote, table
from skillopt_ci.report.run_view import StepPlace
from skillopt_ci.report.size import Section

_MOST_PAIRS = 30
#: What has changed is told first.
_ORDER = ("regressed", "improved", "persistent_fail", "stable_success")


def epoch_section(record: BoundaryRecord, place: StepPlace, links: Links) -> Section:
    """The section of an epoch's end, at three lengths."""
    decision = record.decision
    picture = "🔁" if decision is None else ("✅" if decision.stays else "↩️")
    what = inline(boundary_verdict(record))
    scores = (
        ("–", "–")
        if decision is None
        else (score(decision.score_before), score(decision.score_after, estimated=decision.partial))
    )
    arrow = "" if decision is None else f": {scores[0]} → {scores[1]}"
    summary = f"{picture} <b>End of epoch {record.epoch}</b> {what}{arrow}"
    where = f" · {links.commit(place.verdict)}" if place.verdict else ""
    told = f"{picture} end of epoch {record.epoch}: {what}{where}"
    facts = table(("", f"slow update after step {record.step}"), list(_facts(record, place, links)))
    body = (facts, _guidance(record), _why(record), pair_table(record.pairs))
    full = details(summary, "\n\n".join(part for part in body if part))
    return Section(full, details(summary, facts), f"| – | {scores[0]} | {scores[1]} | {told} |")


def pair_table(pairs: Sequence[PairRecord]) -> str:
    """The pairs, those that changed first; nothing without pairs."""
    if not pairs:
        return ""
    ordered = sorted(pairs, key=lambda pair: (_rank(pair.category), pair.id))
    rows = [_row(pair) for pair in ordered[:_MOST_PAIRS]]
    rest = len(pairs) - len(rows)
    more = f"\n\n<sub>and {rest:,} more</sub>" if rest > 0 else ""
    headings = ("training task", "last epoch's skill", "this epoch's", "")
    return table(headings, rows, "lrrl") + more


def _row(pair: PairRecord) -> tuple[str, str, str, str]:
    return (
        code(pair.id, 60),
        f"{pair.previous.hard:.2f}",
        f"{pair.current.hard:.2f}",
        inline(pair.category.replace("_", " "), 40),
    )


def _rank(category: str) -> int:
    return _ORDER.index(category) if category in _ORDER else len(_ORDER)


def _facts(record: BoundaryRecord, place: StepPlace, links: Links) -> Iterator[tuple[str, str]]:
    yield "verdict", inline(boundary_reason(record), 300)
    decision = record.decision
    if decision is not None and decision.measurement is not None:
        after = inline(after_text(decision))
        yield "selection tasks", f"{score(decision.score_before)} → **{after}**"
        if told := arithmetic(decision):
            yield "arithmetic", inline(told, 500)
        yield f"fixed ({len(decision.fixed)})", codes(decision.fixed)
        yield f"broken ({len(decision.broken)})", codes(decision.broken)
    if record.pairs:
        change = f"{score(record.previous_hard)} → {score(record.current_hard)}"
        yield "pairs", f"{change} on training tasks: {inline(categories(record))}"
    yield "used", inline(usage_text(record.usage.usage()))
    if stages := stage_gist(record.accounts):
        yield "↳ by stage", inline(stages, 500)
    named = (("candidate", place.candidate), ("verdict", place.verdict))
    where = ", ".join(f"{name} {links.commit(sha)}" for name, sha in named if sha)
    if where:
        yield "commits", where


def _guidance(record: BoundaryRecord) -> str:
    slow = record.slow_update
    if slow is None or not slow.content.strip():
        return ""
    return f"**Guidance**\n\n{block(slow.content, 'markdown', lines=30)}"


def _why(record: BoundaryRecord) -> str:
    slow = record.slow_update
    if slow is None or not slow.reasoning.strip():
        return ""
    return f"**Why**\n\n{quote(slow.reasoning)}"
