"""Commit messages: the subject says in words what changed, the trailers carry the facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt_ci.ledger.records import (
    Decision,
    EditRecord,
    HistoryEntry,
    Measurement,
    ProposalRecord,
    StepRecord,
    UsageRecord,
)
from skillopt_ci.report.arithmetic import arithmetic, race_text
from skillopt_ci.report.figures import plural, score, score_text, usage_text
from skillopt_ci.report.note_outcome import guidance_lines
from skillopt_ci.report.reminders import notes_gist, notes_verdict, refusals, reminders
from skillopt_ci.report.reservations import reservations
from skillopt_ci.report.rewriting import rewriting
from skillopt_ci.report.verdict import verdict
from skillopt_ci.sanitize import one_line

_SIMULATED = "The models were simulated: these scores say nothing about a real model."


@dataclass(frozen=True, slots=True)
class CommitText:
    """The parts of a commit message, before wrapping and escaping."""

    subject: str
    body: str
    trailers: dict[str, str]


def started(entry: HistoryEntry, skill: str, measurement: Measurement) -> CommitText:
    """The first commit of a run: the skill as it was found, measured."""
    return CommitText(
        subject=f"Start training {skill}: {score(measurement.score)} on "
        f"{plural(measurement.n, 'task')}",
        body=paragraphs(
            f"The skill as it stands scores {score_text(measurement.score, measurement.n)} on the "
            "selection tasks. From here on every training step is a commit: merged if it scored "
            "higher on the same tasks, reverted otherwise.",
            *reservations(measurement),
            simulated_note(entry.simulated),
        ),
        trailers=_entry_trailers(entry),
    )


def measured(
    entry: HistoryEntry, measurement: Measurement, changes: Sequence[str] = ()
) -> CommitText:
    """The skill, the tasks or the configuration changed under way; scores start afresh."""
    return CommitText(
        subject=f"Measure again: {score(measurement.score)} on {plural(measurement.n, 'task')}, "
        f"{entry.reason}",
        body=paragraphs(
            f"Reason: {entry.reason}. The current skill scores "
            f"{score_text(measurement.score, measurement.n)} on the selection tasks; the next "
            "candidates are compared with that.",
            *reservations(measurement),
            _changed(changes),
            simulated_note(entry.simulated),
        ),
        trailers=_entry_trailers(entry),
    )


def set_aside(entry: HistoryEntry, work: str) -> CommitText:
    """A candidate whose ground changed before it was judged; kept as a parent, not as content.

    ``work`` is what it was the candidate of.
    """
    return CommitText(
        subject=f"Set aside the candidate of {work}: {entry.reason}",
        body="The candidate stays reachable as this commit's second parent. "
        "The work is done again from the skill as it is now.",
        trailers=_entry_trailers(entry),
    )


def took_in_base(base: str, skill: str) -> CommitText:
    """The base branch changed the skill or the run's folder."""
    return CommitText(
        subject=f"Take in {base}: {skill} changed there",
        body=f"Merged without conflict, so that this branch can still be merged into {base}.",
        trailers={"Skillopt-Action": "take_in_base"},
    )


def proposed(record: StepRecord) -> CommitText:
    """A step's candidate, before it is measured."""
    proposal = record.proposal
    return CommitText(
        subject=f"Step {record.step}: {headline(proposal)}",
        body=paragraphs(
            f"{_attempted(proposal)} the model scored {score(proposal.rollout.hard)} on "
            f"{plural(proposal.rollout.n, 'training task')}.",
            "\n".join(f"- {text}" for text in _changes(proposal)),
            "\n".join(f"- {text}" for text in reminders(proposal)),
            f"Why: {one_line(proposal.reasoning, 600)}" if proposal.reasoning else "",
            _guidance(record),
            refusals(proposal),
            _changed(record.changes),
            simulated_note(record.simulated),
        ),
        trailers=_step_trailers(record, "proposed", proposal.skill_after, {}),
    )


def merged(record: StepRecord, decision: Decision, seconds: float) -> CommitText:
    """The candidate scored higher and stays."""
    return CommitText(
        subject=f"Merge step {record.step} ({arrow(decision)}): {headline(record.proposal)}",
        body=_verdict(record, decision),
        trailers=_decision_trailers(record, decision, seconds),
    )


def reverted(record: StepRecord, decision: Decision, candidate: str, seconds: float) -> CommitText:
    """The candidate did not score higher: the skill is again what it was."""
    return CommitText(
        subject=f"Revert step {record.step} ({arrow(decision)}): {headline(record.proposal)}",
        body=paragraphs(f"This reverts commit {candidate}.", _verdict(record, decision)),
        trailers=_decision_trailers(record, decision, seconds),
    )


def unchanged(record: StepRecord, decision: Decision, seconds: float) -> CommitText:
    """A step without a candidate: nothing was proposed, or nothing that changes the text."""
    return CommitText(
        subject=f"Step {record.step}: {decision.reason}",
        body=_verdict(record, decision),
        trailers=_decision_trailers(record, decision, seconds),
    )


def applied_edits(proposal: ProposalRecord) -> tuple[EditRecord, ...]:
    """The edits that changed the document."""
    return tuple(edit for edit in proposal.edits if edit.applied)


def change_count(proposal: ProposalRecord) -> int:
    """How many changes went into the candidate: edits, suggestions, or one whole document."""
    if proposal.mode == "patch":
        return len(applied_edits(proposal))
    return max(1, len(proposal.suggestions)) if proposal.body_changed else 0


def headline(proposal: ProposalRecord) -> str:
    """What a step did to the document, in a few words of the model's own."""
    edits = gist(applied_edits(proposal)) if applied_edits(proposal) else ""
    body = edits if proposal.mode == "patch" else "; ".join(rewriting(proposal))
    return "; ".join(filter(None, (body, notes_gist(proposal)))) or "no change"


def gist(edits: Sequence[EditRecord]) -> str:
    """What the edits say, in a few words of the model's own."""
    return "; ".join(_gist_of(edit) for edit in edits) or "no change"


def edit_text(edit: EditRecord) -> str:
    """What an edit does, and on how much evidence, in one line."""
    content, target = _quoted(edit.content, 200), _quoted(edit.target, 100)
    words = {
        "append": f"add “{content}”",
        "insert_after": f"after “{target}” add “{content}”",
        "replace": f"replace “{target}” by “{content}”",
        "delete": f"drop “{target}”",
    }
    kind = "failed attempt" if edit.source_type == "failure" else "successful attempt"
    what = words.get(edit.op) or f"unknown operation “{one_line(edit.op, 40)}”"
    if edit.source_type == "attribution":
        return f"{what} (did harm, by all that was measured)"
    return f"{what} (seen in {plural(edit.support_count, kind)})"


def _changes(proposal: ProposalRecord) -> tuple[str, ...]:
    if proposal.mode == "patch":
        return tuple(edit_text(edit) for edit in applied_edits(proposal))
    return rewriting(proposal)


def _gist_of(edit: EditRecord) -> str:
    if edit.op == "delete":
        return f"drop “{_quoted(edit.target, 60)}”"
    return _quoted(edit.content, 60) or "empty text"


def _quoted(text: str, limit: int) -> str:
    """The words of a Markdown text, without what makes it a heading, list item or sentence."""
    return one_line(text.lstrip("#-*> \n"), limit).rstrip(" .")


def _verdict(record: StepRecord, decision: Decision) -> str:
    measurement = decision.measurement
    return paragraphs(
        f"Verdict: {verdict(decision.action, decision.score_after)}. "
        f"{decision.reason[:1].upper()}{decision.reason[1:]}.",
        "" if measurement is None else flips(decision),
        arithmetic(decision),
        _raced(record.proposal),
        *reservations(measurement),
        _guidance(record),
        notes_verdict(record.proposal, decision),
        "" if record.proposal.changed else refusals(record.proposal),
        ""
        if decision.reused_from is None
        else f"Measured in step {decision.reused_from}, not again.",
        f"Used {usage_text(record.usage.usage())}.",
        _changed(record.changes),
        simulated_note(record.simulated),
    )


def _raced(proposal: ProposalRecord) -> str:
    return f"Race: {told}" if (told := race_text(proposal)) else ""


def flips(decision: Decision) -> str:
    """The selection tasks whose outcome changed."""
    return f"Fixed: {_names(decision.fixed)}. Broken: {_names(decision.broken)}."


def _attempted(proposal: ProposalRecord) -> str:
    return "One version earlier" if proposal.skill_attempted else "Before this change"


def _guidance(record: StepRecord) -> str:
    """What reviewers asked for, and what became of it."""
    lines = "\n".join(f"- {line}" for line in guidance_lines(record))
    return f"Reviewer guidance:\n\n{lines}" if lines else ""


def _names(tasks: Sequence[str], limit: int = 12) -> str:
    shown = ", ".join(one_line(task, 40) for task in tasks[:limit]) or "none"
    rest = len(tasks) - limit
    return f"{shown} and {rest} more" if rest > 0 else shown


def arrow(decision: Decision) -> str:
    """The scores before and after, for a subject."""
    after = score(decision.score_after, estimated=decision.partial)
    return f"{score(decision.score_before)} → {after}"


def _entry_trailers(entry: HistoryEntry) -> dict[str, str]:
    return {
        "Skillopt-Step": str(entry.step),
        "Skillopt-Epoch": str(entry.epoch),
        "Skillopt-Action": entry.action,
        "Skillopt-Score-After": exact(entry.score_after),
        "Skillopt-Tasks": str(entry.tasks),
        "Skillopt-Skill-Sha256": entry.skill_sha256,
        "Skillopt-Config-Sha256": entry.config_sha256,
        **usage_trailers(entry.usage, entry.simulated),
    }


def _step_trailers(
    record: StepRecord, action: str, skill: str, scores: Mapping[str, str]
) -> dict[str, str]:
    return {
        "Skillopt-Step": str(record.step),
        "Skillopt-Epoch": str(record.epoch),
        "Skillopt-Action": action,
        **scores,
        "Skillopt-Edits": str(change_count(record.proposal)),
        "Skillopt-Skill-Sha256": skill,
        "Skillopt-Config-Sha256": record.proposal.config_sha256,
        **usage_trailers(record.usage, record.simulated),
    }


def _decision_trailers(record: StepRecord, decision: Decision, seconds: float) -> dict[str, str]:
    after = record.proposal.skill_after if decision.stays else record.proposal.skill_before
    scores = {
        "Skillopt-Score-Before": exact(decision.score_before),
        "Skillopt-Score-After": exact(decision.score_after),
        "Skillopt-Tasks": str(decision.compared),
    }
    facts = _step_trailers(record, decision.action, after, scores)
    return {**facts, "Skillopt-Seconds": f"{seconds:.1f}"}


def exact(value: float | None) -> str:
    """A score for programs: six digits, or ``none``."""
    return "none" if value is None else f"{value:.6g}"


def usage_trailers(usage: UsageRecord, simulated: bool) -> dict[str, str]:
    """What it took, and whether the models were real."""
    cost = usage.cost_usd
    facts = {
        "Skillopt-Tokens": str(usage.usage().tokens),
        "Skillopt-Cost-Usd": "unknown" if cost is None else f"{cost:.6f}",
    }
    return {**facts, "Skillopt-Simulated": "true"} if simulated else facts


def simulated_note(simulated: bool) -> str:
    """The warning that belongs to every simulated number."""
    return _SIMULATED if simulated else ""


def _changed(changes: Sequence[str]) -> str:
    listed = ", ".join(one_line(change, 120) for change in changes)
    return f"Changed since the last step: {listed}." if changes else ""


def paragraphs(*parts: str) -> str:
    """The parts that say something, with blank lines between them."""
    return "\n\n".join(part for part in parts if part)
