"""The pinned comment of a run: where training stands, and a folded section for every step."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote as parse_quote

from skillopt_ci.ledger.records import (
    BoundaryRecord,
    Decision,
    EditRecord,
    HistoryEntry,
    PairRecord,
    PatternRecord,
    ProposalRecord,
    State,
    StepRecord,
    accounts_of,
)
from skillopt_ci.model.types import by_role
from skillopt_ci.report.commits import categories, edit_text
from skillopt_ci.report.terminal import boundary_verdict
from skillopt_ci.report.text import (
    COMMENT_BYTES,
    Links,
    Section,
    block,
    clip,
    code,
    codes,
    compose,
    cut,
    details,
    inline,
    quote,
    single_line,
    table,
    usage_text,
)
from skillopt_ci.report.view import RunView, StepPlace
from skillopt_ci.report.words import (
    Fate,
    NoteOutcome,
    after_text,
    arithmetic,
    attempted,
    detailed,
    error_rows,
    follows,
    note_outcomes,
    notes_verdict,
    race_text,
    refusal_lines,
    reminders,
    reservations,
    rewriting,
    stage_gist,
    suggestion_rows,
    tasks_text,
    with_pessimistic,
)
from skillopt_ci.text import cost_text, plural, score, score_text

# What a step changed in the document, as diffs, each with the evidence that it stands on.

_MOST = 10
_DIFF_LINES = 30


def edit_parts(proposal: ProposalRecord) -> Iterator[str]:
    """Each edit with its diff, or a rewritten document with its own; then what was left out."""
    applied = proposal.applied_edits
    for number, edit in enumerate(applied[:_MOST], start=1):
        wishes = inline(follows(edit, proposal), 500)
        title = " · ".join(filter(None, (f"**Edit {number}**", evidence(edit), wishes)))
        yield f"{title}\n\n{_diff(edit)}"
    if len(applied) > _MOST:
        yield f"And {plural(len(applied) - _MOST, 'more edit')}."
    if not applied:
        yield from _rewritten(proposal)
    yield from _list("Reminders", tuple(reminders(proposal)))
    yield from _list("Not applied", tuple(_left_out(proposal)))
    yield from _list("Refused by the guard", tuple(refusal_lines(proposal)))


def evidence(edit: EditRecord) -> str:
    """How many attempts an edit stands on, or that attribution put the rule up for removal."""
    if edit.source_type == "attribution":
        return "did harm, by all that was measured"
    kind = "failed" if edit.source_type == "failure" else "successful"
    return f"seen in {plural(edit.support_count, f'{kind} attempt')}"


def _diff(edit: EditRecord) -> str:
    kept = _prefixed(" ", edit.target) if edit.op == "insert_after" else ""
    removed = _prefixed("-", edit.target) if edit.op in ("replace", "delete") else ""
    added = "" if edit.op == "delete" else _prefixed("+", edit.content)
    return block("\n".join(filter(None, (kept, removed, added))), "diff", lines=_DIFF_LINES)


def _prefixed(sign: str, text: str) -> str:
    return "\n".join(sign + line for line in text.strip("\n").split("\n"))


def _rewritten(proposal: ProposalRecord) -> Iterator[str]:
    suggestions = tuple(f"{kind}: {words}" for kind, words in suggestion_rows(proposal))
    yield from _list("Suggestions to the writer", suggestions)
    yield from _list("What changed", rewriting(proposal))
    if proposal.body_changed and proposal.diff:
        yield block(proposal.diff, "diff", lines=2 * _DIFF_LINES)


def _left_out(proposal: ProposalRecord) -> Iterator[str]:
    for edit in proposal.edits:
        if not edit.applied and not edit.reason:
            yield f"{edit.op} “{(edit.content or edit.target)[:80]}”: {edit.status}"


def _list(title: str, lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        shown = [f"- {inline(line, 300)}" for line in lines[:_MOST]]
        if len(lines) > _MOST:
            shown.append(f"- and {len(lines) - _MOST:,} more")
        yield "\n".join((f"**{title}**\n", *shown))


# One step in a comment: in full, without its texts, or as a row of a table.

_MOST_NOTES = 12
ROW_HEADINGS = ("step", "before", "after", "what became of it")
_ICONS = {"reject": "↩️", "skip_no_patches": "➖", "skip_no_rewrite": "➖"}


def step_section(
    record: StepRecord, place: StepPlace, links: Links, entry: HistoryEntry
) -> Section:
    """The section of a step, at three lengths."""
    summary = _summary(record)
    return Section(
        full=details(summary, step_body(record, place, links)),
        short=details(summary, _step_section_facts(record, place, links)),
        row=step_row(entry, place, links),
    )


def step_body(record: StepRecord, place: StepPlace, links: Links) -> str:
    """All that there is to say about a step."""
    proposal = record.proposal
    return "\n\n".join(
        part
        for part in (
            _step_section_facts(record, place, links),
            _step_section_why(proposal),
            _step_section_guidance(record, links),
            _patterns(proposal),
            *edit_parts(proposal),
            _unmeasured(record),
        )
        if part
    )


def step_row(entry: HistoryEntry, place: StepPlace, links: Links) -> str:
    """A step as a row below :data:`ROW_HEADINGS`."""
    what = inline(entry.verdict)
    where = f" · {links.commit(place.verdict)}" if place.verdict else ""
    cells = (
        f"{entry.step}",
        score(entry.score_before),
        score(entry.score_after, estimated=entry.planned > 0),
        f"{icon(entry.action, entry.score_after)} {what}{where}",
    )
    return f"| {' | '.join(cells)} |"


def step_headline(record: StepRecord) -> str:
    """A step in a few words of plain text."""
    decision = record.decision
    if decision is None:
        return f"Step {record.step} is in flight"
    what = decision.verdict
    if decision.score_after is None:
        return f"Step {record.step}: {what}"
    return (
        f"Step {record.step} {what}: {score(decision.score_before)} → "
        f"{score(decision.score_after, estimated=decision.partial)} on {tasks_text(decision)}"
    )


def icon(action: str, score_after: float | None) -> str:
    """A picture for what became of a step."""
    if score_after is None:
        return "➖"
    return "✅" if "accept" in action else _ICONS.get(action, "▫️")


def _summary(record: StepRecord) -> str:
    decision = record.decision
    picture = "⏳" if decision is None else icon(decision.action, decision.score_after)
    count = record.proposal.change_count
    changes = f" · {plural(count, 'change')}" if count else ""
    cost = inline(cost_text(record.usage.cost_usd))
    headline = inline(step_headline(record)).replace(
        f"Step {record.step}", f"<b>Step {record.step}</b>", 1
    )
    return f"{picture} {headline}{changes} · {cost}"


def _step_section_facts(record: StepRecord, place: StepPlace, links: Links) -> str:
    facts = [*_gate(record), *_rollout(record), *_size(record.proposal), *_use(record, place)]
    if raced := race_text(record.proposal):
        facts.append(("race", inline(raced, 300)))
    if record.changes:
        facts.append(("changed since", inline(", ".join(record.changes), 300)))
    where = _commits(record, place, links)
    if where:
        facts.append(("commits", where))
    return table(("", f"step {record.step_in_epoch} of epoch {record.epoch}"), facts)


def _gate(record: StepRecord) -> Iterator[tuple[str, str]]:
    decision = record.decision
    if decision is None:
        yield "gate", "not yet judged"
        return
    yield "gate", inline(decision.reason, 300)
    if decision.notes is not None:
        yield "notes", inline(notes_verdict(record.proposal, decision), 300)
    yield from _measured(decision)


def _measured(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    if measured is None:
        return
    reused = "" if decision.reused_from is None else f", as measured in step {decision.reused_from}"
    metric = inline(with_pessimistic(decision.metric, measured))
    after = f"**{inline(after_text(decision))}** ({metric})"
    yield "selection tasks", f"{score(decision.score_before)} → {after}{reused}"
    if told := arithmetic(decision):
        yield "arithmetic", inline(told, 500)
    yield f"fixed ({len(decision.fixed)})", codes(decision.fixed)
    yield f"broken ({len(decision.broken)})", codes(decision.broken)


def _rollout(record: StepRecord) -> Iterator[tuple[str, str]]:
    proposal = record.proposal
    rollout = proposal.rollout
    failed = [task.id for task in rollout.tasks if task.failed]
    score = inline(score_text(rollout.hard, rollout.n))
    yield "training tasks", f"{score} {attempted(proposal)}"
    yield f"failed ({len(failed)})", codes(failed)


def _size(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    rate = proposal.learning_rate
    if rate is not None:
        why = f": {inline(rate.reasoning, 200)}" if rate.reasoning else ""
        yield "step size", f"{rate.learning_rate} of {rate.available}, the model's choice{why}"


def _use(record: StepRecord, place: StepPlace) -> Iterator[tuple[str, str]]:
    seconds = "" if place.seconds is None else f", {place.seconds:,.1f} s"
    yield "used", inline(usage_text(record.usage.usage())) + seconds
    if stages := stage_gist(record.accounts):
        yield "↳ by stage", inline(stages, 500)


def _commits(record: StepRecord, place: StepPlace, links: Links) -> str:
    named = (
        ("candidate", place.candidate),
        ("merge" if record.merged else "verdict", place.verdict),
    )
    return ", ".join(f"{name} {links.commit(sha)}" for name, sha in named if sha)


def _step_section_why(proposal: ProposalRecord) -> str:
    return f"**Why**\n\n{quote(proposal.reasoning)}" if proposal.reasoning.strip() else ""


def _step_section_guidance(record: StepRecord, links: Links) -> str:
    """What reviewers asked for, and what became of it."""
    told = [
        f"- {links.within(one.note.url, inline(one.note.author, 60) or 'somebody')}: "
        f"“{inline(one.note.text, 300)}” – **{one.fate}**"
        for one in note_outcomes(record)[:_MOST_NOTES]
    ]
    return "**Reviewer guidance**\n\n" + "\n".join(told) if told else ""


def _patterns(proposal: ProposalRecord) -> str:
    if not proposal.patterns:
        return ""
    rows = [_pattern(pattern) for pattern in proposal.patterns[:8]]
    rest = len(proposal.patterns) - len(rows)
    more = f"\n\n<sub>and {plural(rest, 'more pattern')}</sub>" if rest > 0 else ""
    return table(("what went wrong", "times", "tasks"), rows, "lrl") + more


def _pattern(pattern: PatternRecord) -> tuple[str, str, str]:
    return inline(pattern.description, 200), f"{pattern.count}", codes(pattern.task_ids, most=6)


def _unmeasured(record: StepRecord) -> str:
    """Tasks that are no evidence, for or against."""
    measured = None if record.decision is None else record.decision.measurement
    errors = () if measured is None else measured.errors
    training = [task for task in record.proposal.rollout.tasks if not task.status.measured]
    lines = [f"- {code(task.id)}: {inline(task.reason, 120)}" for task in training[:5]]
    if len(training) > len(lines):
        lines.append(f"- and {len(training) - len(lines):,} more")
    if errors:
        lines.append(f"- selection tasks: {codes(errors)}")
    lines += [f"- {inline(sentence, 900)}" for sentence in reservations(measured)]
    if not lines:
        return ""
    parts = ["**Not measured** (no evidence for or against)", "\n".join(lines)]
    rows = () if measured is None else error_rows(measured)
    if rows:
        told = [(inline(why, 200), count) for why, count in rows]
        parts.append(table(("why selection tasks were not measured", "attempts"), told, "lr"))
    return "\n\n".join(parts)


# An epoch's end in a comment: the slow update, and the pairs of tasks that it looked at.

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
    facts = table(
        ("", f"slow update after step {record.step}"),
        list(_epoch_section_facts(record, place, links)),
    )
    body = (
        facts,
        _epoch_section_guidance(record),
        _epoch_section_why(record),
        pair_table(record.pairs),
    )
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


def _epoch_section_facts(
    record: BoundaryRecord, place: StepPlace, links: Links
) -> Iterator[tuple[str, str]]:
    yield "verdict", inline(record.reason, 300)
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


def _epoch_section_guidance(record: BoundaryRecord) -> str:
    slow = record.slow_update
    if slow is None or not slow.content.strip():
        return ""
    return f"**Guidance**\n\n{block(slow.content, 'markdown', lines=30)}"


def _epoch_section_why(record: BoundaryRecord) -> str:
    slow = record.slow_update
    if slow is None or not slow.reasoning.strip():
        return ""
    return f"**Why**\n\n{quote(slow.reasoning)}"


# The training curve, as a diagram that GitHub draws from text.

_MOST_POINTS = 40
_MEASURED = ("start", "measure", "step", "notes", "slow_update")
_LEGEND = (
    "<sub>Line: the skill as it stands. Bars: each step's candidate, if it had one; those "
    "below the line were reverted.</sub>"
)
_COLOURS = '%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#b6c2cf, #1f883d"}}}}%%'


def chart(run: RunView) -> str:
    """The current skill's score as a line, candidates as bars; nothing before the first step."""
    events = [entry for entry in run.scale if entry.kind in _MEASURED][-_MOST_POINTS:]
    if len(events) < 2:  # noqa: PLR2004 - a line takes two points
        return ""
    return "\n".join(
        (
            "```mermaid",
            _COLOURS,
            "xychart-beta",
            f'  title "Score on {run.state.current.measurement.n} selection tasks"',
            f"  x-axis [{', '.join(_labels(events))}]",
            '  y-axis "score" 0 --> 1',
            f"  bar [{', '.join(_number(_candidate(entry)) for entry in events)}]",
            f"  line [{', '.join(map(_number, _current(events)))}]",
            "```",
            "",
            _LEGEND,
        )
    )


def _labels(events: Sequence[HistoryEntry]) -> list[str]:
    names = {"step": "{}", "start": "start", "slow_update": "end of {}", "notes": "{} notes"}
    kinds = [names.get(entry.kind, "again") for entry in events]
    return [
        f'"{kind.format(entry.epoch if entry.kind == "slow_update" else entry.step)}"'
        for kind, entry in zip(kinds, events, strict=True)
    ]


def _candidate(entry: HistoryEntry) -> float:
    return entry.score_after or 0.0


def _current(events: Sequence[HistoryEntry]) -> list[float]:
    scores: list[float] = []
    for entry in events:
        stays = entry.kind in ("start", "measure") or "accept" in entry.action
        before = scores[-1] if scores else entry.score_before or 0.0
        scores.append(entry.score_after or 0.0 if stays else before)
    return scores


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


#: Belongs to every simulated number.
SIMULATED = (
    "> [!WARNING]\n> The models were **simulated**: these scores say nothing about a real model."
)

_GATED = ("step", "notes", "slow_update")
_EVENTS = {
    "start": "First measurement",
    "step": "Step {0.step}",
    "notes": "Reminders of step {0.step}",
    "measure": "Measured again",
    "set_aside": "Candidate of step {0.step} set aside",
    "slow_update": "End of epoch {0.epoch}",
    "finish": "End of the run",
}


def marker(run: str, part: str = "") -> str:
    """The hidden first line by which a comment of ours is found again."""
    key = parse_quote(run, safe="") + (f"/{parse_quote(part, safe='')}" if part else "")
    return f"<!-- skillopt-ci:v1 key={key} -->"


def pinned_comment(
    run: RunView,
    links: Links,
    *,
    inconclusive: str = "",
    limit: int = COMMENT_BYTES,
) -> str:
    """The comment's whole text, at most ``limit`` bytes.

    ``inconclusive`` says why the newest job came to no verdict.
    """
    head = "\n\n".join(
        part
        for part in (
            marker(run.state.run),
            f"### {code(run.skill_name)}: {journey(run)}",
            verdict_line(run, inconclusive),
            dashboard(run),
            chart(run),
        )
        if part
    )
    return compose(
        head,
        _sections(run, links),
        footer(run, links),
        row_heading=table(ROW_HEADINGS, (), "rrrl"),
        limit=limit,
    )


def step_comment(run: RunView, links: Links, *, inconclusive: str = "") -> str:
    """A comment of its own for the newest step; without a step, where training stands."""
    newest = run.newest
    part = "start" if newest is None else f"step-{newest.step}"
    title = f"### {code(run.skill_name)}: {journey(run)}"
    said = (title, verdict_line(run, inconclusive), dashboard(run))
    head = [marker(run.state.run, part), *filter(None, said)]
    steps = [entry for entry in run.history if entry.kind == "step"]
    sections = [_section(run, links, entry) for entry in steps[-1:]]
    heading = table(ROW_HEADINGS, (), "rrrl")
    return compose("\n\n".join(head), sections, footer(run, links), row_heading=heading)


def journey(run: RunView) -> str:
    """From where to where training has come."""
    current = run.state.current.measurement
    return f"{run.first_score:.3f} → {current.score:.3f} on {plural(current.n, 'task')}"


def verdict_line(run: RunView, inconclusive: str = "") -> str:
    """What happened last."""
    if inconclusive:
        return interruption(inconclusive)
    newest, last = run.newest, run.history[-1] if run.history else None
    if newest is None or newest.decision is None or (last is not None and last.kind != "step"):
        return "" if last is None else _event(last).full
    decision = newest.decision
    return f"{icon(decision.action, decision.score_after)} {inline(step_headline(newest))}."


def interruption(why: str) -> str:
    """The notice of a job that ended without a verdict."""
    if not why:
        return ""
    return (
        "> [!NOTE]\n> **No verdict this time:** "
        f"{inline(why, 500)}. This is neither a regression nor an improvement: what was cut off "
        "was not judged, what was paid for is kept, and the next run goes on from there."
    )


def dashboard(run: RunView) -> str:
    """The run at a glance."""
    state, counts = run.state, run.counts
    current, best = state.current.measurement, state.best.measurement
    empty = f", {counts['empty']} without a candidate" if counts["empty"] else ""
    rows = [
        ("score", f"{_first(run)} → **{inline(score_text(current.score, current.n))}**"),
        *(("beware", inline(sentence, 900)) for sentence in reservations(current)),
        *(
            [("best", f"{inline(score_text(best.score, best.n))} ({inline(state.best.origin)})")]
            if best.score > current.score
            else []
        ),
        *_tested(run),
        ("steps", f"{counts['merged']} merged, {counts['reverted']} reverted{empty}"),
        ("epoch", f"{state.epoch}"),
        ("used", inline(usage_text(state.usage.usage()))),
        *((inline(label), inline(told)) for label, told in _roles(state)),
    ]
    text = table(("", inline(state.skill, 120)), rows)
    notes = [text]
    if run.rescaled:
        notes.append("<sub>The way of measuring changed under way; scores are shown since.</sub>")
    if state.simulated:
        notes.append(SIMULATED)
    return "\n\n".join(notes)


def _roles(state: State) -> Iterator[tuple[str, str]]:
    """Usage by role; the stages are in the steps."""
    accounts = by_role(accounts_of(state.accounts))
    yield from ((f"↳ {role}", detailed(usage)) for role, usage in accounts.items())


def _tested(run: RunView) -> Iterator[tuple[str, str]]:
    """The result on tasks that no decision of training looked at."""
    found = run.summary
    if found is None or found.initial.test is None or found.best.test is None:
        return
    before, after = found.initial.test, found.best.test
    told = f"{score_text(before.hard, before.n)} → {score_text(after.hard, after.n)}"
    yield "test", f"{inline(told)} (after step {found.step}, tasks kept out of training)"


def footer(run: RunView, links: Links) -> str:
    """Where this comes from."""
    parts = [
        f"as of {links.commit(run.commit)}" if run.commit else "",
        links.run("workflow run"),
        "scores are means with 95 % intervals over selection tasks that training does not see",
    ]
    return f"<sub>{' · '.join(part for part in parts if part)}</sub>"


def _first(run: RunView) -> str:
    first = run.scale[0] if run.scale else None
    if first is None or first.score_after is None:
        return "–"
    return inline(score_text(first.score_after, first.tasks))


def _sections(run: RunView, links: Links) -> list[Section]:
    """What happened, newest first."""
    return [_section(run, links, entry) for entry in reversed(run.history)]


def _section(run: RunView, links: Links, entry: HistoryEntry) -> Section:
    """The section of one event; a step whose evidence was not read is only a row."""
    if entry.kind == "step":
        place = run.place(entry.step)
        record = next((one for one in run.steps if one.step == entry.step), None)
        if record is None:
            return Section("", "", step_row(entry, place, links))
        return step_section(record, place, links, entry)
    if entry.kind == "slow_update":
        end = next((one for one in run.epochs if one.epoch == entry.epoch), None)
        if end is not None:
            return epoch_section(end, run.place(entry.epoch, "slow_update"), links)
    return _event(entry)


def _event(entry: HistoryEntry) -> Section:
    """Something that is no step, in a line."""
    why = inline(entry.reason, 160)
    picture = icon(entry.action, entry.score_after) if entry.kind in _GATED else "▫️"
    words = f"{picture} {_EVENTS[entry.kind].format(entry)}{f': {why}' if why else ''}"
    found = score(entry.score_after, estimated=entry.planned > 0)
    after = f" · {found} on {plural(entry.tasks, 'task')}" if entry.tasks else ""
    row = f"| – | {score(entry.score_before)} | {found} | {words} |"
    return Section(words + after, words + after, row)


# Title and body of the one rolling pull request of a run.

_TITLE = 120
_REVIEW = """\
#### How to review

- **Files changed** shows what the skill would become; the folder `.skillopt` is the trainer's \
memory, folded by GitHub.
- **Commits** is the training log: each step is one commit with its evidence, merged if it scored \
higher on the same tasks and reverted otherwise.
- A comment on a line of the skill, or `/skillopt note …` in the conversation, guides the next \
step. A commit pushed to this branch is measured and trained on.

#### How to merge, and how to stop

- Merge it whenever the skill is worth having, also by squashing: training goes on from the base \
branch, and its next step opens a new pull request.
- Close it, and training goes on without it; disable the workflow to stop training.
"""


def title(run: RunView) -> str:
    """Where training stands, as plain text of one line."""
    current, counts = run.state.current.measurement, run.counts
    name = single_line(run.skill_name).replace("@", "").replace("#", "")
    tasks = "1 task" if current.n == 1 else f"{current.n:,} tasks"
    arrow = f"{run.first_score:.2f} → {current.score:.2f} on {tasks}"
    steps = f"{counts['merged']} merged, {counts['reverted']} reverted"
    simulated = " [simulated models]" if run.state.simulated else ""
    return f"Train {clip(name, _TITLE - 80)} skill: {arrow} ({steps}){simulated}"


def body(run: RunView, links: Links, *, inconclusive: str = "", with_chart: bool = False) -> str:
    """What this is and how to deal with it; ``with_chart`` where no comment carries the chart."""
    branch = f"skillopt/{run.state.run}"
    log = links.compare(run.base, branch, "what it changed so far") if run.base else ""
    intro = (
        f"[skillopt-ci](https://pypi.org/project/skillopt-ci/) trains {code(run.state.skill, 120)} "
        f"on this branch, {code(branch)}: it lets a model work on tasks, proposes edits from what "
        "went wrong, and keeps an edit only if it solves more of the tasks it was not made from. "
        "The model itself never changes."
    )
    parts = (
        marker(run.state.run, "pull-request"),
        intro + (f" See {log}." if log else ""),
        interruption(inconclusive),
        dashboard(run),
        chart(run) if with_chart else "",
        _REVIEW.strip(),
        footer(run, links),
    )
    return cut("\n\n".join(part for part in parts if part), COMMENT_BYTES)


# The answer to a reviewer's note.

_MOST_EDITS = 10


def note_answers(run: str, record: StepRecord, commit: str, links: Links) -> dict[str, str]:
    """The answer to each note that a step was given, by the note's id.

    ``commit`` is the step's verdict. Answers begin with a marker of their own.
    """
    return {one.note.id: _answer(run, record, one, commit, links) for one in note_outcomes(record)}


def _answer(run: str, record: StepRecord, outcome: NoteOutcome, commit: str, links: Links) -> str:
    parts = (
        marker(run, f"note {outcome.note.id}"),
        f"{_verdict(record, outcome)} {links.commit(commit) if commit else ''}".strip(),
        "\n".join(_edits(outcome.edits)),
        SIMULATED if record.simulated else "",
    )
    return cut("\n\n".join(part for part in parts if part), COMMENT_BYTES)


def _verdict(record: StepRecord, outcome: NoteOutcome) -> str:
    step = f"Step {record.step}"
    match outcome.fate:
        case Fate.MERGED:
            return f"**Merged.** {step} follows this note: {_scores(record, outcome)}."
        case Fate.REVERTED:
            return (
                f"**Reverted.** {step} tried what this note asks for: {_scores(record, outcome)}, "
                "which is not better. A commit to the branch is measured and kept as it is."
            )
        case Fate.IN_FLIGHT:
            return f"**In flight.** The candidate of step {record.step} follows this note."
        case Fate.NOT_CARRIED_OUT:
            return (
                f"**Not carried out.** The optimizer read this note in step {record.step} and "
                f"proposed {plural(outcome.note.proposed, 'edit')} to follow it, but none went "
                f"into the candidate{_note_answer_why(outcome.edits)}."
            )
        case Fate.NOT_TAKEN_UP:
            return (
                f"**Not taken up.** The optimizer read this note in step {record.step} and named "
                "no edit that follows it. Say it in other words for the next step, or commit the "
                "change to the branch: it is measured then."
            )


def _scores(record: StepRecord, outcome: NoteOutcome) -> str:
    decision = record.decision
    tasks = 0 if decision is None else decision.compared
    before, after = score(outcome.score_before), score(outcome.score_after)
    return f"{before} → {after} on {plural(tasks, 'task')}"


def _note_answer_why(edits: tuple[EditRecord, ...]) -> str:
    reasons = dict.fromkeys(inline(edit.reason, 200) for edit in edits if edit.reason)
    return f": {'; '.join(reasons)}" if reasons else ""


def _edits(edits: tuple[EditRecord, ...]) -> Iterator[str]:
    for edit in edits[:_MOST_EDITS]:
        fate = "" if edit.applied else " (not applied)"
        yield f"- {inline(edit_text(edit), 600)}{fate}"
