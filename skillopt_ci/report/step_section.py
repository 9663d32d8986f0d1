"""One step in a comment: in full, without its texts, or as a row of a table."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import (
    Decision,
    HistoryEntry,
    PatternRecord,
    ProposalRecord,
    StepRecord,
)
from skillopt_ci.report.accounts import stage_gist
from skillopt_ci.report.arithmetic import after_text, arithmetic, race_text, tasks_text
from skillopt_ci.report.attempted import attempted
from skillopt_ci.report.commit import change_count
from skillopt_ci.report.edit_diff import edit_parts
from skillopt_ci.report.figures import cost_text, plural, score, score_text, usage_text
from skillopt_ci.report.links import Links
from skillopt_ci.report.markdown import code, codes, details, inline, quote, table
from skillopt_ci.report.note_outcome import note_outcomes
from skillopt_ci.report.reminders import notes_verdict
from skillopt_ci.report.reservations import error_rows, reservations, with_pessimistic
from skillopt_ci.report.run_view import StepPlace
from skillopt_ci.report.size import Section
from skillopt_ci.report.verdict import verdict

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
        short=details(summary, _facts(record, place, links)),
        row=step_row(entry, place, links),
    )


def step_body(record: StepRecord, place: StepPlace, links: Links) -> str:
    """All that there is to say about a step."""
    proposal = record.proposal
    return "\n\n".join(
        part
        for part in (
            _facts(record, place, links),
            _why(proposal),
            _guidance(record, links),
            _patterns(proposal),
            *edit_parts(proposal),
            _unmeasured(record),
        )
        if part
    )


def step_row(entry: HistoryEntry, place: StepPlace, links: Links) -> str:
    """A step as a row below :data:`ROW_HEADINGS`."""
    what = inline(verdict(entry.action, entry.score_after))
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
    what = verdict(decision.action, decision.score_after)
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
    count = change_count(record.proposal)
    changes = f" · {plural(count, 'change')}" if count else ""
    cost = inline(cost_text(record.usage.cost_usd))
    headline = inline(step_headline(record)).replace(
        f"Step {record.step}", f"<b>Step {record.step}</b>", 1
    )
    return f"{picture} {headline}{changes} · {cost}"


def _facts(record: StepRecord, place: StepPlace, links: Links) -> str:
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


def _why(proposal: ProposalRecord) -> str:
    return f"**Why**\n\n{quote(proposal.reasoning)}" if proposal.reasoning.strip() else ""


def _guidance(record: StepRecord, links: Links) -> str:
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
