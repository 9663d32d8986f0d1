"""A step in flight: its candidate is committed and pushed, but not yet judged."""

from dataclasses import dataclass, replace
from functools import partial

from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.reading import parents
from skillopt_ci.ledger.records import HistoryEntry, StepRecord, UsageRecord
from skillopt_ci.model.meter import Meter
from skillopt_ci.progress import Note, StageFinished
from skillopt_ci.report.commit import proposed, set_aside
from skillopt_ci.skill.document import word_count
from skillopt_ci.training.plan import StepPlan
from skillopt_ci.training.propose import propose
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled, write


@dataclass(frozen=True, slots=True)
class Flight:
    """The candidate of a step. ``commit`` is None when the proposal did not change the skill."""

    commit: str | None
    skill: str
    record: StepRecord


async def launch(
    session: Session, standing: Settled, plan: StepPlan, total: int, meter: Meter
) -> Flight:
    """Propose a candidate and make it durable, so that a dead runner loses no optimizer work."""
    async with session.bench(scope(session, standing, plan.step), meter) as bench:
        proposal = await propose(session, standing, plan, total, bench)
    record = StepRecord(
        step=plan.step,
        epoch=plan.epoch,
        step_in_epoch=plan.step_in_epoch,
        simulated=session.simulated,
        proposal=proposal.record,
        usage=UsageRecord.of(meter.total()),
    )
    if not proposal.record.changed:
        return Flight(None, proposal.skill, record)
    changes = {
        session.skill_path: proposal.skill,
        session.folder.step(plan.step): document(record),
    }
    parent = standing.commit
    commit = write(session.ledger, (parent,), parent, changes, proposed(record))
    session.ledger.propose(commit)
    session.observer(StageFinished("candidate", commit[:10]))
    return Flight(commit, proposal.skill, record)


def resume(session: Session, standing: Settled, candidate: str) -> tuple[Settled, Flight | None]:
    """Go on with a candidate that an earlier run left behind, if it still fits the ground.

    One that is already part of the branch is only tidied away. One made for another skill or
    history is set aside: it stays reachable, and the step is done again.
    """
    ledger = session.ledger
    if ledger.is_ancestor(candidate, standing.commit):
        ledger.withdraw(candidate)
        return standing, None
    record = _record(session, candidate)
    skill = ledger.read(candidate, session.skill_path)
    fits = parents(ledger, candidate) == (standing.commit,)
    if fits and skill is not None and record is not None and _is_next(record, standing):
        session.observer(
            Note(f"Going on with the candidate of step {record.step} ({candidate[:10]})")
        )
        return standing, Flight(candidate, skill, record)
    return _set_aside(session, standing, candidate, record), None


def _record(session: Session, candidate: str) -> StepRecord | None:
    """The record that came with the candidate, under the step that its trailer names."""
    step = session.ledger.log(candidate, limit=1)[0].trailers.get("Skillopt-Step", "")
    if not step.isdecimal():
        return None
    return session.folder.read_step(partial(session.ledger.read, candidate), int(step))


def _is_next(record: StepRecord, standing: Settled) -> bool:
    return record.decision is None and record.step == standing.state.step + 1


def scope(session: Session, standing: Settled, step: int) -> str:
    """The name of this very step: answers paid under it are its own, also after a restart."""
    return f"{session.config.run}/{step}@{standing.commit}"


def _set_aside(
    session: Session, standing: Settled, candidate: str, record: StepRecord | None
) -> Settled:
    """Record that the candidate is given up; what it had cost counts for the run all the same."""
    usage = UsageRecord() if record is None else record.usage
    total = UsageRecord.of(standing.spent + usage.usage())
    state = standing.state.model_copy(update={"usage": total})
    entry = HistoryEntry(
        kind="set_aside",
        step=state.step,
        epoch=state.epoch,
        action="set_aside",
        reason="the branch changed under it",
        score_after=state.current.measurement.score,
        best_score=state.best.measurement.score,
        skill_sha256=state.current.sha256,
        words=word_count(standing.skill),
        config_sha256=session.config_sha256,
        usage=usage,
        simulated=session.simulated,
    )
    session.observer(Note(f"Setting aside the candidate {candidate[:10]}: {entry.reason}"))
    history = (*standing.history, entry)
    changes = {
        session.folder.state: document(state),
        session.folder.history: "".join(map(line, history)),
    }
    ground = standing.commit
    commit = write(session.ledger, (ground, candidate), ground, changes, set_aside(entry))
    session.ledger.advance(standing.branch, commit, drop_candidate=candidate)
    return replace(standing, commit=commit, branch=commit, state=state, history=history)
