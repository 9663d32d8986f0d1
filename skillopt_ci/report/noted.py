"""The commit of notes that stay although the edits of their step were reverted."""

from skillopt_ci.ledger.records import Decision, HistoryEntry, StepRecord
from skillopt_ci.report.commit import CommitText, arrow, exact, flips, paragraphs, simulated_note
from skillopt_ci.report.reminders import notes_gist, reminders


def noted(record: StepRecord, decision: Decision, entry: HistoryEntry) -> CommitText:
    """Its message; ``decision`` is the one on the notes alone."""
    return CommitText(
        subject=f"Step {record.step} ({arrow(decision)}): {notes_gist(record.proposal)}",
        body=paragraphs(
            f"The edits of step {record.step} did not stay, its reminders do. "
            f"{decision.reason[:1].upper()}{decision.reason[1:]}.",
            "\n".join(f"- {text}" for text in reminders(record.proposal)),
            flips(decision),
            simulated_note(record.simulated),
        ),
        trailers=_trailers(entry),
    )


def _trailers(entry: HistoryEntry) -> dict[str, str]:
    """The facts; what the step consumed is counted in the verdict on its edits."""
    return {
        "Skillopt-Step": str(entry.step),
        "Skillopt-Epoch": str(entry.epoch),
        "Skillopt-Action": entry.action,
        "Skillopt-Score-Before": exact(entry.score_before),
        "Skillopt-Score-After": exact(entry.score_after),
        "Skillopt-Tasks": str(entry.tasks),
        "Skillopt-Skill-Sha256": entry.skill_sha256,
        "Skillopt-Config-Sha256": entry.config_sha256,
        **({"Skillopt-Simulated": "true"} if entry.simulated else {}),
    }
