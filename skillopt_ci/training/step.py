"""One training step, from the state of the branches to a merge or a revert on the skills branch."""

from dataclasses import dataclass

from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.records import (
    Decision,
    HistoryEntry,
    Snapshot,
    State,
    StepRecord,
    UsageRecord,
)
from skillopt_ci.model.meter import Meter
from skillopt_ci.progress import Note, StageFinished
from skillopt_ci.report.commit import CommitText, applied_edits, merged, reverted, unchanged
from skillopt_ci.skill.document import word_count
from skillopt_ci.training.flight import Flight, launch, resume, scope
from skillopt_ci.training.judge import judge
from skillopt_ci.training.plan import plan_step, total_steps
from skillopt_ci.training.session import Session
from skillopt_ci.training.settle import settle
from skillopt_ci.training.standing import Settled, find_standing, write


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step did: its whole record, the commit on the skills branch, the state after it."""

    record: StepRecord
    decision: Decision
    commit: str
    state: State
    total: int
    seconds: float


async def train_step(session: Session, run_started: float) -> StepOutcome | None:
    """Do exactly one step, or go on with the one in flight; None when no step is left.

    ``run_started`` is the clock's reading when the command began. Raises
    :class:`~skillopt_ci.errors.BudgetExhausted`, :class:`~skillopt_ci.errors.TooManyErrors` or
    :class:`~skillopt_ci.errors.LostRace` with everything that was paid for kept.
    """
    began = session.clock()
    position = session.ledger.sync()
    session.ledger.preflight(position)
    standing = find_standing(session, position)
    standing = await settle(session, standing, run_started)
    _tell_of_new_settings(session, standing.state)
    flight = None
    if position.candidate is not None:
        standing, flight = resume(session, standing, position.candidate)
    total = total_steps(len(session.splits.train), session.config.train)
    if standing.state.step >= total:
        return None
    meter = session.meter(run_started, standing.spent)
    if flight is None:
        plan = plan_step(session.splits.train, session.config.train, standing.state.step + 1)
        flight = await launch(session, standing, plan, total, meter)
    else:
        _recharge(meter, flight.record)
    async with session.bench(scope(session, standing, flight.record.step), meter) as bench:
        decision = await judge(session, standing, flight.record.proposal, flight.skill, bench)
    usage = UsageRecord.of(meter.total())
    record = flight.record.model_copy(update={"decision": decision, "usage": usage})
    seconds = session.clock() - began
    commit, state = _conclude(session, standing, flight, record, decision, seconds)
    session.observer(StageFinished("decide", commit[:10]))
    return StepOutcome(record, decision, commit, state, total, seconds)


def _tell_of_new_settings(session: Session, state: State) -> None:
    if state.config_sha256 != session.config_sha256:
        text = f"The configuration has changed since step {state.step}; it holds from here on."
        session.observer(Note(text))


def _recharge(meter: Meter, record: StepRecord) -> None:
    """Book what the candidate in flight had cost when it was proposed."""
    for stage, usage in record.proposal.usage.items():
        meter.charge(stage, usage.usage())


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
    changes = _changes(session, standing, flight, record, decision, state)
    parents, tree, text = _shape(standing, flight, record, decision, seconds)
    commit = write(session.ledger, parents, tree, changes, text)
    session.ledger.advance(standing.branch, commit, drop_candidate=flight.commit)
    return commit, state


def _shape(
    standing: Settled, flight: Flight, record: StepRecord, decision: Decision, seconds: float
) -> tuple[tuple[str, ...], str, CommitText]:
    """Parents, tree and message: a merge, a true revert, or a plain commit without candidate."""
    ground, candidate = standing.commit, flight.commit
    if candidate is None:
        return (ground,), ground, unchanged(record, decision, seconds)
    if record.merged:
        return (ground, candidate), candidate, merged(record, decision, seconds)
    return (candidate,), ground, reverted(record, decision, candidate, seconds)


def _next_state(
    session: Session, standing: Settled, record: StepRecord, decision: Decision
) -> State:
    update: dict[str, object] = {
        "step": record.step,
        "epoch": record.epoch,
        "config_sha256": session.config_sha256,
        "usage": UsageRecord.of(standing.spent + record.usage.usage()),
        "simulated": session.simulated,
    }
    if record.merged and decision.measurement is not None:
        current = Snapshot(
            sha256=record.proposal.skill_after,
            step=record.step,
            origin=f"step {record.step}",
            measurement=decision.measurement,
        )
        update["current"] = current
        if decision.action == "accept_new_best":
            update["best"] = current
    return standing.state.model_copy(update=update)


def _changes(
    session: Session,
    standing: Settled,
    flight: Flight,
    record: StepRecord,
    decision: Decision,
    state: State,
) -> dict[str, str | None]:
    folder = session.folder
    entry = _entry(standing, flight, record, decision, state)
    changes: dict[str, str | None] = {
        folder.step(record.step): document(record),
        folder.state: document(state),
        folder.history: "".join(map(line, (*standing.history, entry))),
    }
    if state.best.step == record.step and record.merged:
        changes[folder.best_skill] = flight.skill
    return changes


def _entry(
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
        edits=len(applied_edits(record.proposal)),
        skill_sha256=state.current.sha256,
        candidate_sha256=record.proposal.skill_after,
        words=word_count(flight.skill if record.merged else standing.skill),
        config_sha256=record.proposal.config_sha256,
        usage=record.usage,
        simulated=record.simulated,
    )
