"""Commit messages, a :class:`~skillopt_ci.training.run_context.Render`; trailers carry facts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from skillopt_ci.git.history import CommitText
from skillopt_ci.ledger.records import BoundaryRecord, Decision, HistoryEntry, StepRecord
from skillopt_ci.ledger.summary import DifferenceRecord, FinalSkill, Summary
from skillopt_ci.report import words as say
from skillopt_ci.sanitize import one_line
from skillopt_ci.skill.document import sha256
from skillopt_ci.text import capitalized, names_text, plural, score, score_text
from skillopt_ci.training.state import RunEvent

_SIMULATED = "The models were simulated: these scores say nothing about a real model."
_MOST_NAMES = 12


def event(event: RunEvent, candidate: str | None) -> CommitText:
    """``candidate`` is the commit that the event decides on."""
    entry, record, summary = event.entry, event.record, event.summary
    facts, last = {"Skillopt-Action": entry.action}, dict[str, str]()
    scores = _scores(entry.score_before, entry.score_after, entry.tasks)
    if summary is not None:
        words, found = _finished(summary, event.seconds)
        facts |= found
    elif entry.kind == "confirm":
        words = _confirmation(entry)
        facts |= scores
    elif record is None or entry.kind in ("start", "measure", "set_aside"):
        words = _measured(event)
        facts |= {name: scores[name] for name in ("Skillopt-Score-After", "Skillopt-Tasks")}
    elif isinstance(record, BoundaryRecord):
        words, facts = _epoch_end(record, candidate), {"Skillopt-Epoch-End": "true", **facts}
        last = scores if candidate and record.decision else {}
    elif entry.kind == "notes":
        words = _notes(record)
        facts |= scores
    elif entry.kind == "revert":
        proposal, number = record.proposal, entry.edit
        rule = say.gist(proposal.applied_edits[number - 1]) if number else ""
        words = (
            f"Take back {entry.reason}: {rule or say.headline(proposal)}",
            f"This reverts {f'edit {number} of ' if number else ''}commit {event.work}.",
            "The skill is measured again before the next step, if its text was not measured yet.",
        )
    else:
        words = _step(record, candidate)
        facts |= {**scores, "Skillopt-Edits": str(entry.edits)}
    if entry.kind in ("step", "slow_update"):
        last["Skillopt-Seconds"] = f"{event.seconds:.1f}"
    skill = sha256(event.skill) if entry.kind == "revert" else entry.skill_sha256
    return _text(entry, words, facts, skill, entry.config_sha256, last)


def candidate(record: StepRecord | BoundaryRecord) -> CommitText:
    facts = {"Skillopt-Action": "proposed"}
    if isinstance(record, BoundaryRecord):
        words = (f"End of epoch {record.epoch}: {record.gist}", *_evidence(record))
        facts = {"Skillopt-Epoch-End": "true", **facts}
        return _text(record, words, facts, record.skill_after, record.config_sha256)
    proposal = record.proposal
    edits = map(say.edit_text, proposal.applied_edits)
    words = (
        f"Step {record.step}: {say.headline(proposal)}",
        (
            f"Before this change the model scored {score(proposal.rollout.hard)} on "
            f"{plural(proposal.rollout.measured, 'training task')}."
        ),
        _list("", edits if proposal.mode == "patch" else say.rewriting(proposal)),
        _list("", say.reminders(proposal)),
        f"Why: {one_line(proposal.reasoning, 600)}" if proposal.reasoning else "",
        _guidance(record),
        _list("Refused by the guard:", say.refusal_lines(proposal)),
        _changed(record.changes),
    )
    facts["Skillopt-Edits"] = str(proposal.change_count)
    return _text(record, words, facts, proposal.skill_after, proposal.config_sha256)


def base(base: str, skill: str) -> CommitText:
    return CommitText(
        subject=f"Take in {base}: {skill} changed there",
        body=f"Merged without conflict, so that this branch can still be merged into {base}.",
        trailers={"Skillopt-Action": "take_in_base"},
    )


def _text(
    record: HistoryEntry | StepRecord | BoundaryRecord,
    words: tuple[str, ...],  # the subject and the paragraphs, of which empty ones are left out
    facts: Mapping[str, str],
    skill: str,
    config: str,
    last: Mapping[str, str] | None = None,
) -> CommitText:
    subject, *paragraphs = words
    cost = record.usage.cost_usd
    trailers = {
        "Skillopt-Step": str(record.step),
        "Skillopt-Epoch": str(record.epoch),
        **facts,
        "Skillopt-Skill-Sha256": skill,
        "Skillopt-Config-Sha256": config,
    }
    # A step's usage belongs to the verdict on its edits, not to the one on its notes.
    if not (isinstance(record, HistoryEntry) and record.kind == "notes"):
        trailers |= {
            "Skillopt-Tokens": str(record.usage.tokens),
            "Skillopt-Cost-Usd": "unknown" if cost is None else f"{cost:.6f}",
        }
    if record.simulated:
        paragraphs.append(_SIMULATED)
        trailers["Skillopt-Simulated"] = "true"
    return CommitText(subject, "\n\n".join(filter(None, paragraphs)), {**trailers, **(last or {})})


def _measured(event: RunEvent) -> tuple[str, ...]:
    measured, entry = event.state.current.measurement, event.entry
    why = entry.reason
    if entry.kind == "set_aside":
        return (
            f"Set aside the candidate of {event.work}: {why}",
            (
                "The candidate stays reachable as this commit's second parent. "
                "The work is redone from the current skill."
            ),
        )
    found = f"{score(measured.score)} on {plural(measured.n, 'task')}"
    scores = f"scores {score_text(measured.score, measured.n)} on the selection tasks"
    if entry.kind == "start":
        basis = event.state.basis
        gate = None if basis is None else basis.config.get("evaluation")
        fate = "merged if it scored higher on the same tasks, reverted otherwise"
        if isinstance(gate, dict) and gate.get("use_gate") is False:
            fate = "merged whatever it scores, because the gate is open"
        return (
            f"Start training {event.state.skill}: {found}",
            (
                f"The skill as it stands {scores}. From here on every training step is a commit: "
                f"{fate}."
            ),
            *say.reservations(measured),
        )
    return (
        f"Measure again: {found}, {why}",
        f"Reason: {why}. The current skill {scores}; the next candidates are compared with that.",
        *say.reservations(measured),
        _changed(event.changes),
    )


def _confirmation(entry: HistoryEntry) -> tuple[str, ...]:
    told = {
        "confirmed": ("Confirm", "The gain is confirmed: chance alone rarely shows one like it."),
        "refuted": ("Refute", "It is worse than the last confirmed one: see what it brought."),
        "open": ("Leave provisional", "The gain may still be chance; more attempts can tell."),
    }
    verb, meaning = told[entry.action]
    gain, _, changed = entry.reason.partition("; ")
    return (
        f"{verb}: {gain}",
        (
            "The skill was compared on selection tasks drawn at random, by attempts that no "
            f"decision had seen. {meaning}"
        ),
        f"{capitalized(changed)}." if changed else "",
        f"Used {say.usage_text(entry.usage)}.",
    )


def _step(record: StepRecord, candidate: str | None) -> tuple[str, ...]:
    proposal, decision = record.proposal, record.decision
    assert decision is not None  # noqa: S101 - a step that is recorded was decided on
    did = "Merge" if decision.stays else "Revert"
    subject = f"{did} step {record.step} ({say.arrow(decision)}): {say.headline(proposal)}"
    if candidate is None:
        subject = f"Step {record.step}: {decision.reason}"
    return (
        subject,
        "" if candidate is None or decision.stays else f"This reverts commit {candidate}.",
        f"Verdict: {decision.verdict}. {capitalized(decision.reason)}.",
        "" if decision.measurement is None else _flips(decision),
        say.arithmetic(decision),
        *say.reservations(decision.measurement),
        _guidance(record),
        say.notes_verdict(proposal, decision),
        "" if proposal.changed else _list("Refused by the guard:", say.refusal_lines(proposal)),
        _list("Unusable replies of the optimizer:", say.unusable_lines(proposal)),
        "" if decision.reused_from is None else "Not measured: this text already had a score.",
        f"Used {say.usage_text(record.usage)}.",
        _changed(record.changes),
    )


def _notes(record: StepRecord) -> tuple[str, ...]:
    decision = record.decision and (record.decision.notes or record.decision)
    assert decision is not None  # noqa: S101 - see above
    return (
        f"Step {record.step} ({say.arrow(decision)}): {say.notes_gist(record.proposal)}",
        (
            f"The edits of step {record.step} did not stay, its reminders do. "
            f"{capitalized(decision.reason)}."
        ),
        _list("", say.reminders(record.proposal)),
        _flips(decision),
    )


def _epoch_end(record: BoundaryRecord, candidate: str | None) -> tuple[str, ...]:
    verdict: tuple[str, ...] = ()
    subject = f"End of epoch {record.epoch}: {record.gist}"
    if candidate is not None and (decision := record.decision) is not None:
        did = "Merge" if decision.stays else "Revert"
        subject = f"{did} end of epoch {record.epoch} ({say.arrow(decision)}): {record.gist}"
        verdict = (
            "" if decision.stays else f"This reverts commit {candidate}.",
            f"Verdict: {decision.verdict}. {capitalized(decision.reason)}.",
            "" if decision.measurement is None else _flips(decision),
            say.arithmetic(decision),
        )
    return (subject, *verdict, *_evidence(record), f"Used {say.usage_text(record.usage)}.")


def _evidence(record: BoundaryRecord) -> Iterator[str]:
    if record.pairs:
        yield (
            f"Compared on {plural(len(record.pairs), 'training task')}: {say.categories(record)}; "
            f"{score(record.previous_hard)} under the last epoch's skill, "
            f"{score(record.current_hard)} under this one's."
        )
    slow, meta = record.slow_update, record.meta_skill
    for label, text, most in (
        ("Guidance", slow and slow.content, 600),
        ("Why", slow and slow.reasoning, 600),
        ("Guidance refused", slow and slow.refused, 300),
        ("For the optimizer", meta and meta.content, 600),
        ("Notes refused", meta and meta.refused, 300),
    ):
        if text:
            yield f"{label}: {one_line(text, most)}"


def _finished(summary: Summary, seconds: float) -> tuple[tuple[str, ...], dict[str, str]]:
    initial, best = (
        one.score if one.test is None else one.test.hard for one in (summary.initial, summary.best)
    )
    test = summary.best.test
    tasks, kind = (0, "selection") if test is None else (test.n, "test")
    on = plural(tasks, f"{kind} task") if tasks else f"the {kind} tasks"
    subject = f"Finish training: {score(initial)} → {score(best)} on {on}"
    rows = "\n".join(f"{label}: {text}" for label, text in summary_rows(summary, seconds))
    # a row's indentation stays in front of its bullet, for a nested list
    return (subject, re.sub("(?m)^( *)", r"\1- ", rows)), _scores(initial, best, tasks)


def summary_rows(summary: Summary, seconds: float) -> Iterator[tuple[str, str]]:
    same = summary.last.sha256 == summary.best.sha256
    yield "steps", f"{summary.step} of {max(summary.step, summary.total_steps)}"
    yield "initial", _final_scores(summary.initial)
    yield "best", _final_scores(summary.best)
    yield "last", "the same text as the best" if same else _final_scores(summary.last)
    if summary.trained:
        yield "caution", f"training used {plural(summary.trained, 'test task')}: the split changed"
    if summary.best_gain is not None:
        yield "best − initial", _gain(summary.best_gain)
    if summary.last_gain is not None and not same:
        yield "last − initial", _gain(summary.last_gain)
    if len(summary.best.by_type) > 1:
        for kind, found in sorted(summary.best.by_type.items()):
            yield f"  {one_line(kind, 60)}", f"best: {score_text(found.hard, found.n)}"
    for one in summary.epochs:
        steps = f"{one.accepts} merged, {one.rejects} reverted, {one.skips} without a candidate"
        scores = f"best {score(one.best_score)}, current {score(one.current_score)}"
        yield f"epoch {one.epoch}", f"{plural(one.steps, 'step')}: {steps}; {scores}"
    yield "used", f"{say.usage_text(summary.usage)}, {seconds:.1f} s"
    yield from say.account_rows(summary.accounts)


def _final_scores(skill: FinalSkill) -> str:
    tested = "" if skill.test is None else f"test {score_text(skill.test.hard, skill.test.n)}, "
    return f"{tested}selection {score(skill.score)} ({skill.origin})"


def _gain(gain: DifferenceRecord) -> str:
    return (
        f"{say.gain_text(gain)} on {plural(gain.n, 'test task')}, "
        f"{len(gain.fixed)} fixed, {len(gain.broken)} broken"
    )


def _list(heading: str, lines: Iterable[str]) -> str:
    items = "\n".join(f"- {line}" for line in lines)
    return f"{heading}\n\n{items}" if heading and items else items


def _flips(decision: Decision) -> str:
    fixed, broken = (
        names_text([one_line(task, 40) for task in tasks], _MOST_NAMES)
        for tasks in (decision.fixed, decision.broken)
    )
    return f"Fixed: {fixed}. Broken: {broken}."


def _guidance(record: StepRecord) -> str:
    told = (
        f"{one_line(one.note.author, 60)} ({one.note.id}): “{one_line(one.note.text, 200)}” "
        f"({one.fate})"
        for one in say.note_outcomes(record)
    )
    return _list("Reviewer guidance:", told)


def _changed(changes: Sequence[str]) -> str:
    listed = ", ".join(one_line(change, 120) for change in changes)
    return f"Changed since the last step: {listed}." if changes else ""


def _scores(before: float | None, after: float | None, tasks: int) -> dict[str, str]:
    old, new = ("none" if value is None else f"{value:.6g}" for value in (before, after))
    return {"Skillopt-Score-Before": old, "Skillopt-Score-After": new, "Skillopt-Tasks": str(tasks)}
