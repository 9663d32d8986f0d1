"""The pinned comment of a run: where training stands, and a folded section for every step."""

from collections.abc import Iterator
from urllib.parse import quote

from skillopt_ci.ledger.records import HistoryEntry, State, accounts_of
from skillopt_ci.model.types import by_role
from skillopt_ci.report.accounts import detailed
from skillopt_ci.report.chart import chart
from skillopt_ci.report.epoch_section import epoch_section
from skillopt_ci.report.figures import plural, score, score_text, usage_text
from skillopt_ci.report.links import Links
from skillopt_ci.report.markdown import code, inline, table
from skillopt_ci.report.reservations import reservations
from skillopt_ci.report.run_view import RunView
from skillopt_ci.report.size import COMMENT_BYTES, Section, compose
from skillopt_ci.report.step_section import (
    ROW_HEADINGS,
    icon,
    step_headline,
    step_row,
    step_section,
)

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
    key = quote(run, safe="") + (f"/{quote(part, safe='')}" if part else "")
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
