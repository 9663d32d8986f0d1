"""The sections of a comment: a step, an epoch's end or another event, at three lengths."""

from collections.abc import Iterable, Iterator, Sequence

from skillopt_ci.ledger.records import (
    BoundaryRecord,
    EditRecord,
    HistoryEntry,
    PairRecord,
    ProposalRecord,
    StepRecord,
)
from skillopt_ci.report.markdown import (
    Links,
    Section,
    block,
    code,
    codes,
    cut_table,
    details,
    inline,
    join,
    quote,
    table,
)
from skillopt_ci.report.view import (
    Fact,
    RunView,
    StepPlace,
    change_facts,
    epoch_facts,
    failures,
    gate_facts,
    proposal_facts,
    step_headline,
    use_fact,
)
from skillopt_ci.report.words import (
    arrow,
    boundary_verdict,
    edit_evidence,
    event_name,
    follows,
    note_outcomes,
    stage_gist,
)
from skillopt_ci.text import cost_text, plural, score

_MOST_EDITS = 10
_MOST_LINES = 12
_MOST_PATTERNS = 8
_MOST_PAIRS = 30
_DIFF_LINES = 30
ROW_HEADINGS = ("step", "before", "after", "what became of it")
_ICONS = {"reject": "↩️", "skip_no_patches": "➖", "skip_no_rewrite": "➖"}
#: Pairs that changed come first.
_ORDER = ("regressed", "improved", "persistent_fail", "stable_success")
_GATED = ("step", "notes", "slow_update")


def event_section(run: RunView, links: Links, entry: HistoryEntry) -> Section:
    """The section of one event; a step whose evidence was not read is only a row."""
    if entry.kind == "step":
        place = run.place(entry.step)
        record = next((one for one in run.steps if one.step == entry.step), None)
        if record is None:
            return Section("", "", step_row(entry, place, links))
        return _step_section(record, place, links, entry)
    if entry.kind == "slow_update":
        end = next((one for one in run.epochs if one.epoch == entry.epoch), None)
        if end is not None:
            return epoch_section(end, run.place(entry.epoch, "slow_update"), links)
    return event_line(entry)


def event_line(entry: HistoryEntry) -> Section:
    """Something that is no step, in a line."""
    why = inline(entry.reason, 160)
    picture = icon(entry) if entry.kind in _GATED else "▫️"
    words = f"{picture} {event_name(entry)}{f': {why}' if why else ''}"
    found = score(entry.score_after, estimated=entry.planned > 0)
    after = f" · {found} on {plural(entry.tasks, 'task')}" if entry.tasks else ""
    row = f"| – | {score(entry.score_before)} | {found} | {words} |"
    return Section(words + after, words + after, row)


def _step_section(
    record: StepRecord, place: StepPlace, links: Links, entry: HistoryEntry
) -> Section:
    picture = "⏳" if record.decision is None else icon(entry)
    name = f"Step {record.step}"
    headline = inline(step_headline(record)).replace(name, f"<b>{name}</b>", 1)
    count = record.proposal.change_count
    changes = plural(count, "change") if count else ""
    cost = inline(cost_text(record.usage.cost_usd))
    summary = join(f"{picture} {headline}", changes, cost, by=" · ")
    return Section(
        full=details(summary, step_body(record, place, links)),
        short=details(summary, _step_table(record, place, links)),
        row=step_row(entry, place, links),
    )


def step_row(entry: HistoryEntry, place: StepPlace, links: Links) -> str:
    """A step as a row of a table."""
    where = f" · {links.commit(place.verdict)}" if place.verdict else ""
    cells = (
        f"{entry.step}",
        score(entry.score_before),
        score(entry.score_after, estimated=entry.planned > 0),
        f"{icon(entry)} {inline(entry.verdict)}{where}",
    )
    return f"| {' | '.join(cells)} |"


def step_body(record: StepRecord, place: StepPlace, links: Links) -> str:
    """All that there is to say about a step."""
    proposal = record.proposal
    patterns = failures(proposal.patterns)
    rows = [
        (inline(one.description, 200), f"{one.count}", codes(one.task_ids, most=6))
        for one in patterns
    ]
    more = plural(len(patterns) - _MOST_PATTERNS, "more pattern")
    return join(
        _step_table(record, place, links),
        f"**Why**\n\n{quote(proposal.reasoning)}" if proposal.reasoning.strip() else "",
        _list(
            "Reviewer guidance",
            (
                f"{links.within(one.note.url, inline(one.note.author, 60) or 'somebody')}: "
                f"“{inline(one.note.text, 300)}” – **{one.fate}**"
                for one in note_outcomes(record)
            ),
        ),
        cut_table(("what went wrong", "times", "tasks"), rows, "lrl", _MOST_PATTERNS, more),
        *edit_parts(proposal),
        _list(
            "Not measured (no evidence for or against)",
            (
                f"{code(task.id)}: {inline(task.reason, 120)}"
                for task in proposal.rollout.tasks
                if not task.status.measured
            ),
        ),
    )


def _step_table(record: StepRecord, place: StepPlace, links: Links) -> str:
    facts = (*gate_facts(record), *proposal_facts(record), use_fact(record, place.seconds))
    heading = f"step {record.step_in_epoch} of epoch {record.epoch}"
    return _fact_table(heading, facts, record, place, links)


def edit_parts(proposal: ProposalRecord) -> Iterator[str]:
    """Each edit with its diff, or a rewritten document with its own; then what else there was."""
    applied = proposal.applied_edits
    for number, edit in enumerate(applied[:_MOST_EDITS], start=1):
        wishes = inline(follows(edit, proposal), 500)
        kept = _prefixed(" ", edit.target) if edit.op == "insert_after" else ""
        removed = _prefixed("-", edit.target) if edit.op in ("replace", "delete") else ""
        added = "" if edit.op == "delete" else _prefixed("+", edit.content)
        yield join(f"**Edit {number}**", edit_evidence(edit), wishes, by=" · ")
        yield block(join(kept, removed, added, by="\n"), "diff", lines=_DIFF_LINES)
    if len(applied) > _MOST_EDITS:
        yield f"And {plural(len(applied) - _MOST_EDITS, 'more edit')}."
    if not applied and proposal.body_changed and proposal.diff:
        yield block(proposal.diff, "diff", lines=2 * _DIFF_LINES)
    facts = (*change_facts(proposal), *_left_out(proposal.edits))
    yield _list("Besides", (inline(f"{fact.label}: {fact.text}", 300) for fact in facts))


def _left_out(edits: Sequence[EditRecord]) -> Iterator[Fact]:
    """Edits that were not applied; the text of a refused one is not repeated."""
    for number, edit in enumerate(edits, start=1):
        if edit.reason:
            yield Fact("refused", f"edit {number}: {edit.reason}")
        elif not edit.applied:
            text = (edit.content or edit.target)[:80]
            yield Fact("not applied", f"{edit.op} “{text}”: {edit.status}")


def epoch_section(record: BoundaryRecord, place: StepPlace, links: Links) -> Section:
    """The section of an epoch's end, at three lengths."""
    decision, slow = record.decision, record.slow_update
    picture = "🔁" if decision is None else ("✅" if decision.stays else "↩️")
    what, scores = inline(boundary_verdict(record)), "– | –"
    summary = f"{picture} <b>End of epoch {record.epoch}</b> {what}"
    if decision is not None:
        summary += f": {arrow(decision)}"
        scores = arrow(decision).replace(" → ", " | ")
    where = f" · {links.commit(place.verdict)}" if place.verdict else ""
    compared = (fact for fact in epoch_facts(record) if fact.names is None)
    facts = _fact_table(
        f"slow update after step {record.step}",
        (*gate_facts(record), *compared, use_fact(record, place.seconds)),
        record,
        place,
        links,
    )
    guidance, why = "", ""
    if slow is not None and slow.content.strip():
        guidance = f"**Guidance**\n\n{block(slow.content, 'markdown', lines=30)}"
    if slow is not None and slow.reasoning.strip():
        why = f"**Why**\n\n{quote(slow.reasoning)}"
    return Section(
        full=details(summary, join(facts, guidance, why, pair_table(record.pairs))),
        short=details(summary, facts),
        row=f"| – | {scores} | {picture} end of epoch {record.epoch}: {what}{where} |",
    )


def pair_table(pairs: Sequence[PairRecord]) -> str:
    """The pairs, those that changed first; nothing without pairs."""
    rank = {category: number for number, category in enumerate(_ORDER)}
    ordered = sorted(pairs, key=lambda pair: (rank.get(pair.category, len(rank)), pair.id))
    rows = [
        (
            code(pair.id, 60),
            f"{pair.previous.hard:.2f}",
            f"{pair.current.hard:.2f}",
            inline(pair.category.replace("_", " "), 40),
        )
        for pair in ordered
    ]
    headings = ("training task", "last epoch's skill", "this epoch's", "")
    return cut_table(headings, rows, "lrrl", _MOST_PAIRS)


def icon(entry: HistoryEntry) -> str:
    if entry.score_after is None:
        return "➖"
    return "✅" if entry.stays else _ICONS.get(entry.action, "▫️")


def _fact_table(
    heading: str,
    facts: Iterable[Fact],
    record: StepRecord | BoundaryRecord,
    place: StepPlace,
    links: Links,
) -> str:
    rows = fact_cells(facts)
    if stages := stage_gist(record.accounts):
        rows.append(("↳ by stage", inline(stages, 500)))
    stays = record.decision is not None and record.decision.stays
    named = (("candidate", place.candidate), ("merge" if stays else "verdict", place.verdict))
    if where := ", ".join(f"{name} {links.commit(sha)}" for name, sha in named if sha):
        rows.append(("commits", where))
    return table(("", heading), rows)


def fact_cells(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    return [
        (fact.label, inline(fact.text, 900))
        if fact.names is None
        else (f"{fact.label} ({len(fact.names)})", codes(fact.names))
        for fact in facts
    ]


def _list(heading: str, lines: Iterable[str]) -> str:
    found = list(lines)
    shown = [f"- {line}" for line in found[:_MOST_LINES]]
    if len(found) > len(shown):
        shown.append(f"- and {len(found) - len(shown):,} more")
    return "\n".join((f"**{heading}**\n", *shown)) if shown else ""


def _prefixed(sign: str, text: str) -> str:
    return "\n".join(sign + line for line in text.strip("\n").split("\n"))
