"""How an epoch's end is recorded: one commit with its verdict, state, history and memory."""

from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    HistoryEntry,
    Snapshot,
    State,
    UsageRecord,
    with_accounts,
)
from skillopt_ci.report.commits import boundary_landed, boundary_reason
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.skill.regions import reading_sha256
from skillopt_ci.training.flight import BoundaryFlight
from skillopt_ci.training.footing import remembered
from skillopt_ci.training.landing import Landing, land, planned, snapshots
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled


def conclude_boundary(
    session: Session,
    standing: Settled,
    flight: BoundaryFlight,
    record: BoundaryRecord,
    seconds: float,
) -> tuple[str, State]:
    """Commit the decided ``record`` and move the skills branch there; return commit and state."""
    stays = record.decision is not None and record.decision.stays
    skill = flight.skill if stays else standing.skill
    state = _next_state(session, standing, record)
    changes = _changes(session, standing, record, state, skill, flight.skill)
    text = boundary_landed(record, flight.commit, seconds)
    commit = land(session, standing, Landing(flight.commit, stays, changes, text))
    return commit, state


def _next_state(session: Session, standing: Settled, record: BoundaryRecord) -> State:
    decision, after = record.decision, None
    if decision is not None and decision.measurement is not None:
        after = Snapshot(
            sha256=record.skill_after,
            step=record.step,
            origin=f"slow update of epoch {record.epoch}",
            measurement=decision.measurement,
        )
    return standing.state.model_copy(
        update={
            "boundary": record.epoch,
            "config_sha256": session.config_sha256,
            "usage": UsageRecord.of(standing.spent + record.usage.usage()),
            "accounts": with_accounts(standing.state.accounts, record.accounts),
            "simulated": session.simulated,
            **snapshots(standing.state, decision, after),
        }
    )


def _changes(
    session: Session,
    standing: Settled,
    record: BoundaryRecord,
    state: State,
    skill: str,
    candidate: str,
) -> dict[str, str | None]:
    folder = session.folder
    entry = _entry(record, state, skill, candidate)
    changes: dict[str, str | None] = {
        folder.boundary(record.epoch): document(record),
        folder.epoch_skill(record.epoch): skill,
        folder.state: document(state),
        folder.history: "".join(map(line, (*standing.history, entry))),
    }
    if record.meta_skill is not None and record.meta_skill.content:
        changes[folder.meta_skill] = record.meta_skill.content + "\n"
    if record.decision is not None and record.decision.stays:
        changes |= remembered(session, standing)
    if state.best.sha256 == sha256(skill):
        changes[folder.best_skill] = skill
    return changes


def _entry(record: BoundaryRecord, state: State, skill: str, candidate: str) -> HistoryEntry:
    decision = record.decision
    return HistoryEntry(
        kind="slow_update",
        step=record.step,
        epoch=record.epoch,
        action=record.action,
        reason=boundary_reason(record),
        score_before=None if decision is None else decision.score_before,
        score_after=None if decision is None else decision.score_after,
        best_score=state.best.measurement.score,
        tasks=0 if decision is None else decision.compared,
        skill_sha256=state.current.sha256,
        candidate_sha256=record.skill_after if record.changed else "",
        candidate_reading=reading_sha256(candidate) if record.changed else "",
        planned=0 if decision is None else planned(decision),
        words=word_count(skill),
        config_sha256=record.config_sha256,
        usage=record.usage,
        simulated=record.simulated,
    )
