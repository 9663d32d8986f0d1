"""The answer to a reviewer's note."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import EditRecord, StepRecord
from skillopt_ci.report.commit import edit_text
from skillopt_ci.report.dashboard import SIMULATED, marker
from skillopt_ci.report.figures import plural, score
from skillopt_ci.report.links import Links
from skillopt_ci.report.markdown import inline
from skillopt_ci.report.note_outcome import Fate, NoteOutcome, note_outcomes
from skillopt_ci.report.size import COMMENT_BYTES, cut

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
                f"into the candidate{_why(outcome.edits)}."
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


def _why(edits: tuple[EditRecord, ...]) -> str:
    reasons = dict.fromkeys(inline(edit.reason, 200) for edit in edits if edit.reason)
    return f": {'; '.join(reasons)}" if reasons else ""


def _edits(edits: tuple[EditRecord, ...]) -> Iterator[str]:
    for edit in edits[:_MOST_EDITS]:
        fate = "" if edit.applied else " (not applied)"
        yield f"- {inline(edit_text(edit), 600)}{fate}"
