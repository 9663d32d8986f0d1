"""One training step: propose a candidate, measure it, and merge or revert it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skillopt_ci.git.history import CommitText
from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.records import (
    Basis,
    Decision,
    HistoryEntry,
    NotesRecord,
    Snapshot,
    State,
    StepRecord,
    UsageRecord,
    account_records,
    with_accounts,
)
from skillopt_ci.progress import StageFinished, StepStarted
from skillopt_ci.report.commits import merged, noted, reverted, unchanged
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.skill.regions import reading_sha256, with_notes
from skillopt_ci.training.evaluate import judge
from skillopt_ci.training.plan import plan_step
from skillopt_ci.training.prefetch_plan import (
    account_for_lost,
    foresee_after_step,
    foresee_measuring,
    foresee_rejection,
    foresee_verdict,
)
from skillopt_ci.training.resume import Flight, launch, recharge, scope, work_out
from skillopt_ci.training.rollout_stage import remembered
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.state import (
    Afterwards,
    Landing,
    Settled,
    basis_of,
    basis_sha256,
    land,
    planned,
    snapshots,
)

# How notes are recorded whose edits were rejected: a commit of their own on top of the revert.


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
    entry = _notes_landing_entry(record, kept, state, skill)
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


def _notes_landing_entry(
    record: StepRecord, kept: Decision, state: State, skill: str
) -> HistoryEntry:
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


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step did: its whole record, the commit on the skills branch, the state after it."""

    record: StepRecord
    decision: Decision
    commit: str
    state: State
    total: int
    seconds: float


async def train_step(
    session: Session, standing: Settled, flight: Flight | None, total: int, run_started: float
) -> StepOutcome:
    """Do the next step of ``total``, or go on with the one in ``flight``.

    ``run_started`` is the clock's reading when the command began. Raises
    :class:`~skillopt_ci.errors.BudgetExhausted`, :class:`~skillopt_ci.errors.TooManyErrors` or
    :class:`~skillopt_ci.errors.LostRace` with everything that was paid for kept.
    """
    began = session.clock()
    session.observer(_starting(session, standing, total))
    meter = session.meter(run_started, standing.spent)
    train, tasks = session.config.train, session.splits.train
    plan = plan_step(tasks, train, standing.state.step + 1, session.first_seed)
    state = standing.state.model_copy(update={"step": plan.step})
    ground = replace(standing, state=state)
    foresee_rejection(session, standing, ground)
    if flight is None:
        flight = await work_out(session, standing, plan, total, meter)
        # notes alone are judged by a gate of their own, which may ask for other attempts
        if flight.record.proposal.body_changed:
            foresee_measuring(session, standing, flight.skill, session.config.evaluation)
        flight = await launch(session, standing, flight)
    else:
        recharge(meter, flight.record.accounts, flight.record.proposal.usage)
    foresee_verdict(session, standing, ground, flight.skill)
    async with session.bench(scope(session, standing, flight.record.step), meter) as bench:
        decision = await judge(session, standing, flight.record.proposal, flight.skill, bench)
    ground = replace(ground, skill=_skill_after(standing, flight, decision))
    foresee_after_step(session, standing, flight.record, ground)
    account_for_lost(session, meter)
    used = {"usage": UsageRecord.of(meter.total()), "accounts": account_records(meter.accounts())}
    record = flight.record.model_copy(update={"decision": decision, **used})
    seconds = session.clock() - began
    commit, state = await asyncio.to_thread(
        _conclude, session, standing, flight, record, decision, seconds
    )
    session.observer(StageFinished("decide", commit[:10]))
    return StepOutcome(record, decision, commit, state, total, seconds)


def _skill_after(standing: Settled, flight: Flight, decision: Decision) -> str:
    notes = flight.record.proposal.notes
    if decision.keeps_notes and notes is not None:
        return with_notes(standing.skill, notes.appendix)
    return flight.skill if decision.stays else standing.skill


def _starting(session: Session, standing: Settled, total: int) -> StepStarted:
    state = standing.state
    current = state.current.measurement
    steps = [entry for entry in standing.history if entry.kind == "step"]
    last = steps[-1].verdict if steps else ""
    number = state.step + 1
    epoch = (number - 1) * session.config.train.num_epochs // total + 1
    return StepStarted(number, total, epoch, current.score, current.n, last)


def _conclude(
    session: Session,
    standing: Settled,
    flight: Flight,
    record: StepRecord,
    decision: Decision,
    seconds: float,
) -> tuple[str, State]:
    """Commit the verdict and move the skills branch there, in one push with the candidate's end."""
    state = _next_state(session, standing, record, decision)
    entry = _step_entry(standing, flight, record, decision, state)
    changes = _changes(session, standing, flight, record, entry, state)
    text = _text(flight, record, decision, seconds)
    landing = Landing(flight.commit, decision.stays, changes, text)
    if decision.keeps_notes:
        history = (*standing.history, entry)
        state, afterwards = notes_afterwards(session, standing, record, decision, state, history)
        landing = replace(landing, afterwards=afterwards)
    return land(session, standing, landing), state


def _text(flight: Flight, record: StepRecord, decision: Decision, seconds: float) -> CommitText:
    if flight.commit is None:
        return unchanged(record, decision, seconds)
    if decision.stays:
        return merged(record, decision, seconds)
    return reverted(record, decision, flight.commit, seconds)


def _next_state(
    session: Session, standing: Settled, record: StepRecord, decision: Decision
) -> State:
    after = None
    if decision.measurement is not None:
        after = Snapshot(
            sha256=record.proposal.skill_after,
            step=record.step,
            origin=f"step {record.step}",
            measurement=decision.measurement,
        )
    heard = (note.id for note in record.proposal.reviewer_notes)
    return standing.state.model_copy(
        update={
            "step": record.step,
            "epoch": record.epoch,
            "config_sha256": session.config_sha256,
            "basis": _basis(session, standing, record),
            "usage": UsageRecord.of(standing.spent + record.usage.usage()),
            "accounts": with_accounts(standing.state.accounts, record.accounts),
            "simulated": session.simulated,
            "heard_notes": (*standing.state.heard_notes, *heard),
            **snapshots(standing.state, decision, after),
        }
    )


def _basis(session: Session, standing: Settled, record: StepRecord) -> Basis | None:
    """What the step was proposed under; it may have been taken over from before a change."""
    now = basis_of(session)
    return now if record.basis_sha256 == basis_sha256(now) else standing.state.basis


def _changes(
    session: Session,
    standing: Settled,
    flight: Flight,
    record: StepRecord,
    entry: HistoryEntry,
    state: State,
) -> dict[str, str | None]:
    folder = session.folder
    changes: dict[str, str | None] = {
        folder.step(record.step): document(record),
        folder.state: document(state),
        folder.history: "".join(map(line, (*standing.history, entry))),
    }
    if record.merged:
        changes |= remembered(session, standing)
    if state.best.step == record.step and record.merged:
        changes[folder.best_skill] = flight.skill
    return changes


def _step_entry(
    standing: Settled, flight: Flight, record: StepRecord, decision: Decision, state: State
) -> HistoryEntry:
    return HistoryEntry(
        kind="step",
        step=record.step,
        epoch=record.epoch,
        action=decision.action,
        reason=decision.reason,
        score_before=decision.score_before,
        score_after=decision.score_after,
        best_score=state.best.measurement.score,
        tasks=decision.compared,
        edits=record.proposal.change_count,
        skill_sha256=state.current.sha256,
        candidate_sha256=record.proposal.skill_after,
        candidate_reading=reading_sha256(flight.skill),
        planned=planned(decision),
        words=word_count(flight.skill if record.merged else standing.skill),
        config_sha256=record.proposal.config_sha256,
        usage=record.usage,
        simulated=record.simulated,
    )
