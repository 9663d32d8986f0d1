"""The sections of a comment: a step, an epoch's end or another event."""

from collections.abc import Iterable, Iterator

from skillopt_ci.ledger.evidence import ProposalRecord
from skillopt_ci.ledger.records import BoundaryRecord, HistoryEntry, StepRecord
from skillopt_ci.report import markdown as md
from skillopt_ci.report import words as say
from skillopt_ci.report.view import EventView, Fact, RunView, extra_facts
from skillopt_ci.text import cost_text, plural, score

_MOST_EDITS = 10
_MOST_LINES = 12
_DIFF_LINES = 30


def event_section(run: RunView, links: md.Links, entry: HistoryEntry) -> str:
    view = run.told(entry)
    if view is None:
        return "" if entry.kind == "step" else event_line(entry)
    return view_section(view, links, icon(entry))


def view_section(view: EventView, links: md.Links, mark: str) -> str:
    headline = md.inline(view.headline).replace(view.name, f"<b>{view.name}</b>", 1)
    record, cost = view.record, view.record.usage.cost_usd
    told = say.rules(record.proposal) if isinstance(record, StepRecord) else (record.gist,)
    spent = md.inline(cost_text(cost)) if cost else ""
    summary = md.join(f"{mark} {headline}", md.inline("; ".join(told), 160), spent, by=" · ")
    return md.details(summary, event_body(view, links))


def event_line(entry: HistoryEntry) -> str:
    tested = entry.kind == "confirm"
    why = md.inline(f"{entry.verdict}, {entry.reason}" if tested else entry.reason, 300)
    after = score(entry.score_after, estimated=entry.planned > 0)
    found = f" · {after} on {plural(entry.tasks, 'task')}" if entry.tasks and not tested else ""
    return f"{icon(entry)} {say.event_name(entry)}{f': {why}' if why else ''}{found}"


def icon(entry: HistoryEntry) -> str:
    if entry.kind not in ("step", "notes", "slow_update"):
        return {"confirmed": "✅", "refuted": "❌"}.get(entry.action, "▫️")
    if entry.score_after is None:
        return "🔁" if entry.kind == "slow_update" else "➖"
    return "✅" if entry.stays else "↩️"


def event_body(view: EventView, links: md.Links) -> str:
    record, why = view.record, "\n\n".join(view.reasoning)
    used = (view.used,) if view.record.usage.calls else ()
    rows, place = fact_cells((*view.gate, *view.work, *used)), view.place
    named = (
        ("candidate", place.candidate),
        ("merge" if view.fate == "merged" else "verdict", place.verdict),
    )
    if where := ", ".join(f"{name} {links.commit(sha)}" for name, sha in named if sha):
        rows.append(("commits", where))
    return md.join(
        md.table(("", view.heading), rows),
        f"**Why**\n\n{md.block_quote(why)}" if why else "",
        *(_step_parts(record, links) if isinstance(record, StepRecord) else _epoch_parts(record)),
    )


def fact_cells(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    return [
        (fact.label, md.inline(fact.text, 900))
        if fact.names is None
        else (f"{fact.label} ({len(fact.names)})", md.codes(fact.names))
        for fact in facts
    ]


def _step_parts(record: StepRecord, links: md.Links) -> Iterator[str]:
    proposal = record.proposal
    yield _list(
        "Reviewer guidance",
        (
            f"{links.within(one.note.url, md.inline(one.note.author, 60) or 'somebody')}: "
            f"“{md.inline(one.note.text, 300)}” – **{one.fate}**"
            for one in say.note_outcomes(record)
        ),
    )
    patterns = [
        (md.inline(one.description, 200), f"{one.count}", md.codes(one.task_ids, most=6))
        for one in say.failures(proposal.patterns)
    ]
    yield md.cut_table(("what went wrong", "times", "among attempts at"), patterns, "lrl", most=8)
    yield from edit_parts(proposal)
    yield _list(
        "Not measured (no evidence for or against)",
        (
            f"{md.code(task.id)}: {md.inline(task.reason, 120)}"
            for task in proposal.rollout.tasks
            if not task.status.measured
        ),
    )


def edit_parts(proposal: ProposalRecord) -> Iterator[str]:
    """Applied edits, or the new document, as diffs; then other facts and edits not applied."""
    applied = proposal.applied_edits
    for number, edit in enumerate(applied[:_MOST_EDITS], start=1):
        kept = _prefixed(" ", edit.target) if edit.op == "insert_after" else ""
        removed = _prefixed("-", edit.target) if edit.op in ("replace", "delete") else ""
        added = "" if edit.op == "delete" else _prefixed("+", edit.content)
        yield f"**Edit {number}** · {say.edit_evidence(edit)}"
        yield md.block(md.join(kept, removed, added, by="\n"), "diff", lines=_DIFF_LINES)
    if len(applied) > _MOST_EDITS:
        yield f"And {plural(len(applied) - _MOST_EDITS, 'more edit')}."
    if not applied and proposal.body_changed and proposal.diff:
        yield md.block(proposal.diff, "diff", lines=2 * _DIFF_LINES)
    besides = [f"{fact.label}: {fact.text}" for fact in extra_facts(proposal)]
    for number, edit in enumerate(proposal.edits, start=1):
        if edit.reason:
            besides.append(f"refused: edit {number}: {edit.reason}")
        elif not edit.applied:
            text = (edit.content or edit.target)[:80]
            besides.append(f"not applied: {edit.op} “{text}”: {edit.status}")
    yield _list("Besides", (md.inline(told, 300) for told in besides))


def _epoch_parts(record: BoundaryRecord) -> Iterator[str]:
    if record.slow_update is not None and record.slow_update.content.strip():
        yield f"**Guidance**\n\n{md.block(record.slow_update.content, 'markdown', lines=30)}"


def _list(heading: str, lines: Iterable[str]) -> str:
    found = list(lines)
    shown = [f"- {line}" for line in found[:_MOST_LINES]]
    if len(found) > len(shown):
        shown.append(f"- and {len(found) - len(shown):,} more")
    return "\n".join((f"**{heading}**\n", *shown)) if shown else ""


def _prefixed(sign: str, text: str) -> str:
    return "\n".join(sign + line for line in text.strip("\n").split("\n"))
