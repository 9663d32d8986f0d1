"""The reminders of a step, and what the guard refused of it, in words."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import Decision, ProposalRecord
from skillopt_ci.report.figures import plural, score
from skillopt_ci.sanitize import one_line


def notes_gist(proposal: ProposalRecord) -> str:
    """What a step reminds of, in a few words of the model's own; empty if of nothing new."""
    notes = proposal.notes
    if notes is None or not notes.added:
        return ""
    noun = "note" if len(notes.added) == 1 else "notes"
    return f"{noun} " + "; ".join(f"“{one_line(note, 60).rstrip(' .')}”" for note in notes.added)


def reminders(proposal: ProposalRecord) -> Iterator[str]:
    """One line per new reminder, and one if the list was condensed."""
    notes = proposal.notes
    if notes is None:
        return
    yield from (f"remind of “{one_line(note, 200)}”" for note in notes.added)
    if notes.consolidated_from:
        yield f"condense {notes.consolidated_from} reminders to {len(notes.appendix)}"


def refusals(proposal: ProposalRecord) -> str:
    """What the guard kept out, with its reasons, as a list; empty if it refused nothing."""
    lines = "\n".join(f"- {line}" for line in refusal_lines(proposal))
    return f"Refused by the guard:\n\n{lines}" if lines else ""


def refusal_lines(proposal: ProposalRecord) -> Iterator[str]:
    """One line per refusal; the refused text is in the record, and is not repeated."""
    yield from (f"a proposal: {one_line(reason, 200)}" for reason in proposal.screened)
    for number, edit in enumerate(proposal.edits, start=1):
        if edit.reason:
            yield f"edit {number}: {one_line(edit.reason, 200)}"
    if proposal.refused:
        yield f"the new document: {one_line(proposal.refused, 200)}"
    if proposal.notes is not None:
        yield from (f"a note: {one_line(one.reason, 200)}" for one in proposal.notes.refused)


def notes_verdict(proposal: ProposalRecord, decision: Decision) -> str:
    """What became of notes whose edits were rejected; empty where there is nothing to tell."""
    alone, notes = decision.notes, proposal.notes
    if alone is None or notes is None:
        return ""
    count = plural(len(notes.added), "reminder")
    fate = "The next commit keeps" if alone.stays else "Dropped were also"
    return f"{fate} {count}, measured alone ({score(alone.score_after)}): {alone.reason}."
