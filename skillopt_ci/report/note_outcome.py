"""What became of reviewers' notes: in a step's record, and in words."""

from dataclasses import dataclass
from enum import StrEnum

from skillopt_ci.ledger.records import EditRecord, ProposalRecord, ReviewerNoteRecord, StepRecord
from skillopt_ci.sanitize import one_line

_MOST_FOLLOWED = 5


class Fate(StrEnum):
    """What became of a note."""

    MERGED = "merged"
    REVERTED = "reverted"
    IN_FLIGHT = "in flight"
    """A candidate follows it that is not judged yet."""
    NOT_CARRIED_OUT = "not carried out"
    """An edit was proposed, and refused, not selected, or found no place."""
    NOT_TAKEN_UP = "not taken up"


@dataclass(frozen=True, slots=True)
class NoteOutcome:
    """A note with its fate, and the edits of the step's selection that follow it.

    The scores are those that the candidate was judged by; None if it was not.
    """

    note: ReviewerNoteRecord
    fate: Fate
    edits: tuple[EditRecord, ...] = ()
    score_before: float | None = None
    score_after: float | None = None


def note_outcomes(record: StepRecord) -> tuple[NoteOutcome, ...]:
    """What became of each note that the step was given."""
    return tuple(_outcome(record, note) for note in record.proposal.reviewer_notes)


def guidance_lines(record: StepRecord) -> tuple[str, ...]:
    """A line for each note of the step, for its commit: who said what, and what became of it."""
    return tuple(
        f"{one_line(one.note.author, 60)} ({one.note.id}): “{one_line(one.note.text, 200)}” "
        f"({one.fate})"
        for one in note_outcomes(record)
    )


def follows(edit: EditRecord, proposal: ProposalRecord) -> str:
    """Whose notes an edit follows, in plain words of one line; empty if nobody's."""
    authors = {note.id: one_line(note.author, 60) for note in proposal.reviewer_notes}
    told = [
        f"{authors.get(name) or 'somebody'} ({one_line(name, 100)})"
        for name in edit.note_ids[:_MOST_FOLLOWED]
    ]
    more = len(edit.note_ids) - len(told)
    if more:
        told.append(f"{more} more")
    return f"follows {', '.join(told)}" if told else ""


def _outcome(record: StepRecord, note: ReviewerNoteRecord) -> NoteOutcome:
    edits = tuple(edit for edit in record.proposal.edits if note.id in edit.note_ids)
    decision = record.decision
    if not note.taken or not record.proposal.changed:
        asked = note.proposed or note.taken
        return NoteOutcome(note, Fate.NOT_CARRIED_OUT if asked else Fate.NOT_TAKEN_UP, edits)
    if decision is None:
        return NoteOutcome(note, Fate.IN_FLIGHT, edits)
    fate = Fate.MERGED if decision.stays else Fate.REVERTED
    return NoteOutcome(note, fate, edits, decision.score_before, decision.score_after)
