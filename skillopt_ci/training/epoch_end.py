"""An epoch's end: the slow update of the skill and the optimizer's memory.

After "slow update" and "meta skill" of SkillOpt (reference 1.11, 1.12), with two differences: the
guidance passes the gate like any candidate, and whatever becomes of it is measured, so that the
current score always belongs to the current skill.
"""

import asyncio
from dataclasses import dataclass, replace

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    Decision,
    HistoryEntry,
    Snapshot,
    State,
    UsageRecord,
    account_records,
    with_accounts,
)
from skillopt_ci.model.budget import Meter
from skillopt_ci.progress import StageFinished
from skillopt_ci.report.commits import boundary_landed, boundary_proposed
from skillopt_ci.skill.document import sha256, word_count
from skillopt_ci.skill.regions import reading_sha256
from skillopt_ci.training.evaluate import judge_text
from skillopt_ci.training.prefetch_plan import (
    account_for_lost,
    foresee_measuring,
    foresee_next,
    foresee_rejection,
    foresee_verdict,
)
from skillopt_ci.training.resume import BoundaryFlight, put_forward, recharge
from skillopt_ci.training.rollout_stage import remembered
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.slow_update import first_epoch, later_epoch
from skillopt_ci.training.state import Landing, Settled, land, planned, snapshots

# How an epoch's end is recorded: one commit with its verdict, state, history and memory.


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
        reason=record.reason,
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


@dataclass(frozen=True, slots=True)
class BoundaryOutcome:
    """What an epoch's end did: its record, the commit on the skills branch, the state after it."""

    record: BoundaryRecord
    commit: str
    state: State
    seconds: float


async def cross(
    session: Session,
    standing: Settled,
    epoch: int,
    flight: BoundaryFlight | None,
    run_started: float,
) -> BoundaryOutcome:
    """Do the work of the end of ``epoch``, or go on with its candidate in ``flight``.

    Raises what a step raises, with everything that was paid for kept.
    """
    began = session.clock()
    meter = session.meter(run_started, standing.spent)
    scope = f"{session.config.run}/epoch-{epoch}@{standing.commit}"
    state = standing.state.model_copy(update={"boundary": epoch})
    ground = replace(standing, state=state)
    foresee_rejection(session, standing, ground)
    if flight is None:
        flight = await _work_out(session, standing, epoch, meter, scope)
        if flight.record.changed:
            evaluation = _evaluation(session, flight.record)
            foresee_measuring(session, standing, flight.skill, evaluation)
        flight = await _launch(session, standing, flight)
    else:
        recharge(meter, flight.record.accounts, flight.record.stages)
    foresee_verdict(session, standing, ground, flight.skill)
    decision = await _judge(session, standing, flight, meter, scope)
    stays = decision is not None and decision.stays
    after = replace(ground, skill=flight.skill) if stays else ground
    foresee_next(session, standing, after)
    account_for_lost(session, meter)
    record = flight.record.model_copy(update={"decision": decision, **_used(meter)})
    seconds = session.clock() - began
    commit, state = await asyncio.to_thread(
        conclude_boundary, session, standing, flight, record, seconds
    )
    session.observer(StageFinished("epoch end", commit[:10]))
    return BoundaryOutcome(record, commit, state, seconds)


async def _work_out(
    session: Session, standing: Settled, epoch: int, meter: Meter, scope: str
) -> BoundaryFlight:
    """Work out the candidate, which is not committed yet."""
    if epoch == 1:
        skill, record = first_epoch(session, standing)
    else:
        async with session.bench(scope, meter) as bench:
            skill, record = await later_epoch(session, standing, epoch, bench)
    stages = {stage: UsageRecord.of(used) for stage, used in meter.usage_by_stage().items()}
    record = record.model_copy(update={"stages": stages, **_used(meter)})
    return BoundaryFlight(None, skill, record)


async def _launch(session: Session, standing: Settled, flight: BoundaryFlight) -> BoundaryFlight:
    """Commit the candidate, if there is one, so that a dead runner loses no optimizer work."""
    skill, record = flight.skill, flight.record
    if not record.changed:
        return flight
    files = {session.skill_path: skill, session.folder.boundary(record.epoch): document(record)}
    commit = await put_forward(session, standing, files, boundary_proposed(record))
    return BoundaryFlight(commit, skill, record)


def _used(meter: Meter) -> dict[str, object]:
    return {
        "usage": UsageRecord.of(meter.total()),
        "accounts": account_records(meter.accounts()),
    }


async def _judge(
    session: Session, standing: Settled, flight: BoundaryFlight, meter: Meter, scope: str
) -> Decision | None:
    if not flight.record.changed:
        return None
    evaluation = _evaluation(session, flight.record)
    async with session.bench(scope, meter) as bench:
        return await judge_text(session, standing, flight.skill, bench, evaluation)


def _evaluation(session: Session, record: BoundaryRecord) -> Evaluation:
    """The gate's configuration; it stands open for a placeholder and where updates are forced."""
    slow, evaluation = record.slow_update, session.config.evaluation
    placeholder = slow is not None and slow.action == "inject_placeholder"
    if placeholder or not session.config.optimizer.slow_update_gate_with_selection:
        return evaluation.model_copy(update={"use_gate": False})
    return evaluation
