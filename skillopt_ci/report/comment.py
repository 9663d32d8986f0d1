"""A run's texts on GitHub: comments, pull request, checks, answers to reviewers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote as parse_quote

from skillopt_ci.github.types import CONFIRMED, Annotation, Conclusion, WantedCheck
from skillopt_ci.ledger.evidence import ProposalRecord
from skillopt_ci.ledger.records import BoundaryRecord, HistoryEntry, StepRecord
from skillopt_ci.model.types import by_role
from skillopt_ci.report import markdown as md
from skillopt_ci.report import words as say
from skillopt_ci.report.view import EventView, Fact, RunView, extra_facts, lessons, run_facts
from skillopt_ci.sanitize import one_line
from skillopt_ci.text import cost_text, plural, score, signed

#: Must accompany every simulated number.
SIMULATED = (
    "> [!WARNING]\n> The models were **simulated**: these scores say nothing about a real model."
)
_MOST_EDITS = 10
_DIFF_LINES = 30
_UNSCORED = "yet to be scored after its last change"
_REVIEW = """\
- **Files changed** shows the new skill; the folder `.skillopt` holds the trainer's records, which \
GitHub collapses. **Commits** is the training log: one commit per step, with its evidence, merged \
or reverted by the gate.
- **Guide it:** comment on a line of the skill, or write `/skillopt note …` in the conversation. \
The next step's optimizer reads and answers it. If you push a commit to this branch, training \
continues from it.
- **Merge it** when the skill is worth having, with a merge commit or by squashing, not by \
rebasing. Training continues from the base branch, and its next step opens a new pull request.
- **Undo a step:** `/skillopt revert` and its number, or words from a rule to undo only that. The \
optimizer sees it. `/skillopt status`, `diff` and `report` reply here; `/skillopt apply` merges \
this if it is confirmed, `/skillopt apply anyway` even if it is not.
- **Stop it:** close this pull request. Training waits until you reopen it.\
"""


def marker(run: str, part: str = "") -> str:
    key = parse_quote(run, safe="") + (f"/{parse_quote(part, safe='')}" if part else "")
    return f"<!-- skillopt-ci:v1 key={key} -->"


def pinned_comment(run: RunView, links: md.Links, *, limit: int = md.COMMENT_BYTES) -> str:
    """The run's standing and a section for every event, in at most ``limit`` bytes."""
    head = md.join(marker(run.state.run), _standing(run))
    sections = [view_section(run.flight, links, "⏳")] if run.flight else []
    sections += [event_section(run, links, one) for one in reversed(run.history[run.base_events :])]
    return md.compose(head, sections, footer(run, links), limit=limit)


def step_comment(run: RunView, links: md.Links) -> str:
    """A separate comment for the newest step; without a step, where training stands."""
    part = "start" if run.newest is None else run.newest.anchor
    head = md.join(marker(run.state.run, part), _standing(run))
    steps = [entry for entry in run.history if entry.kind == "step"]
    sections = [event_section(run, links, entry) for entry in steps[-1:]]
    return md.compose(head, sections, footer(run, links))


def title(run: RunView) -> str:
    rules = [rule for one in lessons(run) for rule in one.rules]
    nothing = "nothing more learned" if run.base_events else "nothing learned yet"
    words = one_line(rules[0], 60) if rules else nothing
    if rules[1:]:
        words += f" and {plural(len(rules) - 1, 'more rule')}"
    if rules or run.counts["merged"]:
        words += f", {_gain(run, sure=False)}"
    if run.refuted:
        words += ", refuted"
    elif run.state.provisional:
        words += ", provisional"
    if run.state.simulated:
        words += " [simulated models]"
    name = md.clip(md.single_line(run.skill_name), 40)
    return f"{name}: {words}".replace("@", "").replace("#", "")


def body(run: RunView, links: md.Links) -> str:
    branch = f"skillopt/{run.state.run}"
    learned = "nothing more" if run.base_events else "nothing yet"
    if run.counts["merged"] or lessons(run):
        learned = _gain(run)
    text = md.join(
        marker(run.state.run, "pull-request"),
        f"### What {md.code(run.skill_name)} learned: {learned}",
        _claim(run),
        SIMULATED if run.state.simulated else "",
        interruption(run.inconclusive),
        lessons_text(run, links),
        results(run),
        md.details("How to review, guide, merge or stop this", _REVIEW),
        f"[skillopt-ci](https://github.com/skillopt-ci/skillopt-ci) trains this skill on the "
        f"branch {md.code(branch)}: one model works on tasks with it, another proposes edits from "
        "what went wrong, and a gate decides which of them stay: by default, those that raise the "
        "score on held-out tasks. No model is changed.",
        footer(run, links),
    )
    return md.cut(text)


def lessons_text(run: RunView, links: md.Links) -> str:
    learned = lessons(run)
    lines = [
        "\n  - ".join(
            (
                f"- {one.text} · {links.commit(one.view.place.verdict, one.name)}",
                *(md.inline(rule) for rule in one.rules[:_MOST_EDITS]),
            )
        )
        for one in learned[:_MOST_EDITS]
    ]
    if len(learned) > len(lines):
        lines.append(f"- and {plural(len(learned) - len(lines), 'more step')}")
    return "\n".join(lines)


def _gain(run: RunView, *, sure: bool = True) -> str:
    """The skill's gain over base: ``+0.850 ± 0.093 (95 %) on 60 test tasks``.

    Comes from the test tasks, which no decision used, if exactly this text was tested. Where base's
    skill has no score that compares, the skill's own stands there.
    """
    measured, found = run.state.current.measurement, run.tested_skill
    if run.unscored:
        return _UNSCORED
    if found is not None and not run.base_events:
        skill, gain = found
        if gain is not None and skill.sha256 == run.state.current.sha256:
            told = say.gain_text(gain) if sure else signed(gain.mean)
            return f"{told} on {plural(gain.n, 'test task')}"
    base = run.history[max(run.base_events - 1, 0)].skill_sha256
    known = run.origin is not None and run.origin.skill_sha256 == base
    now = signed(measured.score - run.first_score) if known else score(measured.score)
    return f"{now} on {plural(measured.n, 'selection task')}"


def _standing(run: RunView) -> str:
    current = run.state.current.measurement
    scores = f"{score(run.first_score)} → {score(current.score)}"
    told = _UNSCORED if run.unscored else f"{scores} on {plural(current.n, 'selection task')}"
    listed = "\n".join(
        f"- {one.label}: {md.inline(one.text, 900)}"
        for one in run_facts(run)
        if one.label.startswith(("test", "caution", "steps", "used"))
    )
    return md.join(
        f"### {md.code(run.skill_name)}: {told}",
        _claim(run),
        listed,
        interruption(run.inconclusive),
        SIMULATED if run.state.simulated else "",
    )


def _claim(run: RunView) -> str:
    claim = f"**{md.inline(run.claim, 400)}.**" if run.claim else ""
    undo = "Nothing is reverted automatically: `/skillopt revert` takes back a step or a rule."
    return f"> [!CAUTION]\n> {claim} {undo}" if run.refuted else claim


def interruption(why: str) -> str:
    if not why:
        return ""
    return (
        "> [!NOTE]\n> **No verdict this time:** "
        f"{md.inline(why.rstrip(' .'), 1_000)}. This is neither a regression nor an improvement."
    )


def results(run: RunView) -> str:
    roles = by_role(run.state.accounts)
    used = (Fact(f"↳ {role}", say.detailed(usage)) for role, usage in roles.items())
    merged = max((entry.step for entry in run.history[: run.base_events]), default=0)
    relative = (
        f"<sub>Scores and steps are relative to {md.code(run.base)}, which has this run up to step "
        f"{merged}.</sub>"
    )
    return md.join(
        md.table(("", md.inline(run.state.skill, 120)), fact_cells((*run_facts(run), *used))),
        relative if run.base_events else "",
    )


def footer(run: RunView, links: md.Links) -> str:
    parts = (
        f"as of {links.commit(run.commit)}" if run.commit else "",
        links.run("workflow run"),
        "scores are means with 95 % intervals; the optimizer sees no selection or test tasks",
    )
    return f"<sub>{md.join(*parts, by=' · ')}</sub>"


# The sections of a comment: a step, an epoch's end or another event.


def event_section(run: RunView, links: md.Links, entry: HistoryEntry) -> str:
    """The section of one event; empty for a step without evidence."""
    view = run.told(entry)
    if view is None:
        return "" if entry.kind == "step" else event_line(entry)
    return view_section(view, links, icon(entry))


def view_section(view: EventView, links: md.Links, mark: str) -> str:
    headline = md.inline(view.headline).replace(view.name, f"<b>{view.name}</b>", 1)
    record, cost = view.record, view.record.usage.cost_usd
    told = say.rules(record.proposal) if isinstance(record, StepRecord) else (record.gist,)
    # a left-to-right mark, so that it stays after a rule written from right to left
    spent = f"&lrm;{md.inline(cost_text(cost))}" if cost else ""
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
    verdict = "merge" if view.fate == "merged" else "verdict"
    named = (("candidate", place.candidate), (verdict, place.verdict))
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
    yield md.cut_table(("what went wrong", "times", "in attempts at"), patterns, "lrl", most=8)
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
    applied = [(number, edit) for number, edit in enumerate(proposal.edits, 1) if edit.applied]
    for number, edit in applied[:_MOST_EDITS]:
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
    besides += [
        f"refused: edit {number}: {edit.reason}"
        if edit.reason
        else f"edit {number}: {say.edit_fate(edit)}: {say.edit_text(edit)}"
        for number, edit in enumerate(proposal.edits, 1)
        if not edit.applied
    ]
    yield _list("Also", (md.inline(told, 300) for told in besides))


def _epoch_parts(record: BoundaryRecord) -> Iterator[str]:
    if record.slow_update is not None and record.slow_update.content.strip():
        yield f"**Guidance**\n\n{md.block(record.slow_update.content, 'markdown', lines=30)}"


def _list(heading: str, lines: Iterable[str]) -> str:
    found = list(lines)
    shown = [f"- {line}" for line in found[:12]]
    if len(found) > len(shown):
        shown.append(f"- and {len(found) - len(shown):,} more")
    return "\n".join((f"**{heading}**\n", *shown)) if shown else ""


def _prefixed(sign: str, text: str) -> str:
    return "\n".join(sign + line for line in text.strip("\n").split("\n"))


# The check on a commit: a step's outcome, where people look for what blocks a merge.


@dataclass(frozen=True, slots=True)
class TaskPlace:
    path: str
    line: int


def step_check(
    run: RunView, links: md.Links, *, tasks: Mapping[str, TaskPlace] | None = None
) -> WantedCheck:
    """The check on the tip: green only for a measured improvement, else neutral."""
    newest, inconclusive = run.newest, run.inconclusive
    decision = None if inconclusive or run.unscored or newest is None else newest.record.decision
    told = f"Training starts at {score(run.state.current.measurement.score)}"
    if inconclusive:
        told = md.clip(md.single_line(inconclusive), 200)
    elif run.unscored:
        told = f"The skill is {_UNSCORED}"
    elif newest is not None:
        told = newest.headline
    remarks: list[tuple[str, str, str]] = []
    if decision is not None:
        lost = () if decision.measurement is None else decision.measurement.errors
        remarks = [
            (task, word, text)
            for tasks_of, word, text in (
                (decision.broken, "broken", "solved before this change, not after it"),
                (lost, "not measured", "infrastructure or its scorer failed"),
                (decision.fixed, "fixed", "solved after this change, not before it"),
            )
            for task in tasks_of
        ]
    summary = md.join(
        interruption(run.inconclusive),
        SIMULATED if run.state.simulated else "",
        results(run),
        "" if newest is None else event_body(newest, links),
        footer(run, links),
    )
    return WantedCheck(
        name=f"skillopt-ci / {run.state.run}",
        head_sha=run.commit,
        title=told,
        summary=md.cut(summary),
        conclusion="success" if decision is not None and decision.better else "neutral",
        annotations=tuple(annotations(remarks, tasks or {})),
        details_url=links.workflow_run,
    )


def confirmation_check(run: RunView, links: md.Links) -> WantedCheck | None:
    """Whether fresh attempts confirm the tip; pending until then, so merge rules can require it."""
    if run.state.confirmed is None:
        return None
    told = f"The skill is {_UNSCORED}" if run.unscored else run.claim or "Nothing was merged yet"
    passed: Conclusion | None = None if run.state.provisional or run.unscored else "success"
    return WantedCheck(
        name=CONFIRMED,
        head_sha=run.commit,
        title=md.clip(md.single_line(told), 200),
        summary=md.join(SIMULATED if run.state.simulated else "", results(run), footer(run, links)),
        conclusion="failure" if run.refuted else passed,
        details_url=links.workflow_run,
    )


def annotations(
    remarks: Iterable[tuple[str, str, str]], tasks: Mapping[str, TaskPlace]
) -> Iterator[Annotation]:
    """Annotations for ``remarks``: a task's name, its outcome, a sentence."""
    placed = [remark for remark in remarks if remark[0] in tasks]
    for task, word, text in placed[:50]:  # GitHub takes no more at once
        place = tasks[task]
        yield Annotation(
            path=place.path,
            start_line=place.line,
            end_line=place.line,
            annotation_level="warning" if word == "broken" else "notice",
            message=f"Task {md.clip(md.single_line(task), 100)}: {text}.",
            title=f"Task {word}",
        )


def note_answers(run: str, record: StepRecord, commit: str, links: md.Links) -> dict[str, str]:
    """The answer to each note, by the note's id; ``commit`` is the step's verdict."""
    return {
        one.note.id: md.cut(
            md.join(
                marker(run, f"note {one.note.id}"),
                md.join(_answer(record, one), links.commit(commit), by=" "),
                "\n".join(
                    f"- {md.inline(say.edit_text(edit), 600)}"
                    f"{'' if edit.applied else ' (not applied)'}"
                    for edit in one.edits[:_MOST_EDITS]
                ),
                SIMULATED if record.simulated else "",
            )
        )
        for one in say.note_outcomes(record)
    }


def _answer(record: StepRecord, outcome: say.NoteOutcome) -> str:
    step, decision = f"step {record.step}", record.decision
    journey = md.inline(f"{say.arrow(decision)} on {say.tasks_text(decision)}") if decision else ""
    found = dict.fromkeys(md.inline(edit.reason, 200) for edit in outcome.edits if edit.reason)
    reasons = f": {'; '.join(found)}" if found else ""
    return {
        say.Fate.MERGED: f"**Merged.** Step {record.step} follows this note: {journey}.",
        say.Fate.REVERTED: f"**Reverted.** Step {record.step} tried what this note asks for: "
        f"{journey}, which is not better. To keep the change anyway, commit it to the branch.",
        say.Fate.IN_FLIGHT: f"**In flight.** The candidate of {step} follows this note.",
        say.Fate.NOT_CARRIED_OUT: f"**Not carried out.** The optimizer read this note in {step} "
        f"and proposed {plural(outcome.note.proposed, 'edit')} to follow it, but none went into "
        f"the candidate{reasons}.",
        say.Fate.NOT_TAKEN_UP: f"**Not taken up.** The optimizer read this note in {step} but "
        "proposed no edit that follows it. Rephrase it for the next step, or commit the change to "
        "the branch yourself.",
    }[outcome.fate]
