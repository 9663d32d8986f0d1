"""How notes are recorded whose edits were rejected: a commit of their own on top of the revert."""

from collections.abc import Sequence

from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.records import (
    Decision,
    HistoryEntry,
    NotesRecord,
    Snapshot,
    State,
    StepRecord,
)
from skillopt_ci.report.commits import noted
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.skill.regions import reading_sha256, with_notes
from skillopt_ci.training.footing import remembered
from skillopt_ci.training.landing import Afterwards, snapshots
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled


def notes_afterwards(
    session: Session,
    standing: Settled,
    record: StepRecord,
    decision: Decision,
    state: State,
    history: Sequence[HistoryEntry],
) -> tuple[State, Afterwards]:
    """Return the state with the notes in the current skill, and the commit that puts them there.

    ``state`` and ``history`` are those after the verdict on the edits.
    """
    notes, kept = record.proposal.notes or NotesRecord(proposed=0), decision.notes or decision
    skill = with_notes(standing.skill, notes.appendix)
    state = _with_notes(state, record, kept, sha256(skill))
    entry = _entry(record, kept, state, skill)
    folder = session.folder
    changes: dict[str, str | None] = {
        session.skill_path: skill,
        folder.state: document(state),
        folder.history: "".join(map(line, (*history, entry))),
        **remembered(session, standing),
    }
    if kept.beats_best:
        changes[folder.best_skill] = skill
    return state, Afterwards(changes, noted(record, kept, entry))


def _with_notes(state: State, record: StepRecord, kept: Decision, skill: str) -> State:
    if kept.measurement is None:
        return state
    after = Snapshot(
        sha256=skill,
        step=record.step,
        origin=f"notes of step {record.step}",
        measurement=kept.measurement,
    )
    return state.model_copy(update=snapshots(state, kept, after))


def _entry(record: StepRecord, kept: Decision, state: State, skill: str) -> HistoryEntry:
    return HistoryEntry(
        kind="notes",
        step=record.step,
        epoch=record.epoch,
        action=kept.action,
        reason=kept.reason,
        score_before=kept.score_before,
        score_after=kept.score_after,
        best_score=state.best.measurement.score,
        tasks=kept.compared,
        skill_sha256=state.current.sha256,
        candidate_sha256=state.current.sha256,
        candidate_reading=reading_sha256(skill),
        words=word_count(skill),
        config_sha256=record.proposal.config_sha256,
        simulated=record.simulated,
    )
