"""A step in flight: its candidate is committed and pushed, but not yet judged."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from skillopt_ci.git.history import CommitText
from skillopt_ci.ledger.folder import document, line
from skillopt_ci.ledger.inspect import parents
from skillopt_ci.ledger.records import (
    AccountRecord,
    BoundaryRecord,
    HistoryEntry,
    State,
    StepRecord,
    UsageRecord,
    account_records,
    accounts_of,
    with_accounts,
)
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.types import Account, role_of
from skillopt_ci.progress import Note, StageFinished
from skillopt_ci.report.commits import proposed, set_aside
from skillopt_ci.skill.document import word_count
from skillopt_ci.training.plan import StepPlan
from skillopt_ci.training.propose import propose
from skillopt_ci.training.run_context import Session
from skillopt_ci.training.state import Settled, basis_of, basis_sha256, changes_since, write


@dataclass(frozen=True, slots=True)
class Flight:
    """The candidate of a step. ``commit`` is None when the proposal did not change the skill."""

    commit: str | None
    skill: str
    record: StepRecord


@dataclass(frozen=True, slots=True)
class BoundaryFlight:
    """The candidate of an epoch's end; ``commit`` is None when it leaves the skill as it is."""

    commit: str | None
    skill: str
    record: BoundaryRecord


async def work_out(
    session: Session, standing: Settled, plan: StepPlan, total: int, meter: Meter
) -> Flight:
    """Propose a candidate, which is not committed yet."""
    basis = basis_of(session)
    changes = changes_since(standing.state.basis, basis)
    if changes:
        session.observer(Note(f"Changed since the last step: {', '.join(changes)}."))
    async with session.bench(scope(session, standing, plan.step), meter) as bench:
        proposal = await propose(session, standing, plan, total, bench)
    record = StepRecord(
        step=plan.step,
        epoch=plan.epoch,
        step_in_epoch=plan.step_in_epoch,
        simulated=session.simulated,
        changes=changes,
        basis_sha256=basis_sha256(basis),
        proposal=proposal.record,
        usage=UsageRecord.of(meter.total()),
        accounts=account_records(meter.accounts()),
    )
    return Flight(None, proposal.skill, record)


async def launch(session: Session, standing: Settled, flight: Flight) -> Flight:
    """Commit a candidate, if there is one, so that a dead runner loses no optimizer work."""
    skill, record = flight.skill, flight.record
    if not record.proposal.changed:
        return flight
    files = {session.skill_path: skill, session.folder.step(record.step): document(record)}
    commit = await put_forward(session, standing, files, proposed(record))
    return Flight(commit, skill, record)


async def put_forward(
    session: Session, standing: Settled, files: Mapping[str, str], text: CommitText
) -> str:
    """Commit a candidate's ``files`` and publish it; attempts go on meanwhile."""
    parent = standing.commit

    def published() -> str:
        commit = write(session.ledger, (parent,), parent, files, text)
        session.ledger.push_candidate(commit)
        return commit

    commit = await asyncio.to_thread(published)
    session.observer(StageFinished("candidate", commit[:10]))
    return commit


def resume(
    session: Session, standing: Settled, candidate: str
) -> tuple[Settled, Flight | BoundaryFlight | None]:
    """Go on with a candidate that an earlier run left behind, if it still fits the ground.

    One that is already part of the branch is only tidied away. One made for another skill or
    history is set aside: it stays reachable, and the work is done again.
    """
    ledger = session.ledger
    if ledger.is_ancestor(candidate, standing.commit):
        ledger.withdraw(candidate)
        return standing, None
    flight = in_flight(session, standing, candidate)
    if flight is not None:
        session.observer(Note(f"Going on with the candidate in flight ({candidate[:10]})."))
        return standing, flight
    return _set_aside(session, standing, candidate, _read(session, candidate)), None


def in_flight(
    session: Session, standing: Settled, candidate: str
) -> Flight | BoundaryFlight | None:
    """The work that ``candidate`` belongs to; None if it does not fit the ground."""
    if parents(session.ledger, candidate) != (standing.commit,):
        return None
    flight = _read(session, candidate)
    return flight if flight is not None and _is_next(flight, standing) else None


def _read(session: Session, candidate: str) -> Flight | BoundaryFlight | None:
    """The work that the candidate's trailers name, with the record that came with it."""
    read, folder = partial(session.ledger.read, candidate), session.folder
    trailers = session.ledger.log(candidate, limit=1)[0].trailers
    skill = read(session.skill_path)
    if skill is None:
        return None
    if "Skillopt-Epoch-End" in trailers:
        boundary = folder.read_boundary(read, _number(trailers, "Skillopt-Epoch"))
        return None if boundary is None else BoundaryFlight(candidate, skill, boundary)
    step = folder.read_step(read, _number(trailers, "Skillopt-Step"))
    return None if step is None else Flight(candidate, skill, step)


def _number(trailers: Mapping[str, str], key: str) -> int:
    value = trailers.get(key, "")
    return int(value) if value.isdecimal() else 0


def _is_next(flight: Flight | BoundaryFlight, standing: Settled) -> bool:
    state = standing.state
    if flight.record.decision is not None:
        return False
    if isinstance(flight, BoundaryFlight):
        return flight.record.epoch > state.boundary and flight.record.step == state.step
    return flight.record.step == state.step + 1


def recharge(
    meter: Meter, accounts: Iterable[AccountRecord], stages: Mapping[str, UsageRecord]
) -> None:
    """Book what the candidate in flight had cost when it was proposed.

    A candidate of an earlier version knows no ``accounts``, only the usage of its ``stages``.
    """
    known = accounts_of(accounts) or {
        Account(role_of(stage), stage): used.usage() for stage, used in stages.items()
    }
    for account, usage in known.items():
        meter.charge(account, usage)


def scope(session: Session, standing: Settled, step: int) -> str:
    """The name of this very step: answers paid under it are its own, also after a restart."""
    return f"{session.config.run}/{step}@{standing.commit}"


def _work(flight: Flight | BoundaryFlight | None, state: State) -> str:
    if isinstance(flight, BoundaryFlight):
        return f"the end of epoch {flight.record.epoch}"
    return f"step {state.step + 1 if flight is None else flight.record.step}"


def _set_aside(
    session: Session, standing: Settled, candidate: str, flight: Flight | BoundaryFlight | None
) -> Settled:
    """Record that the candidate is given up; what it had cost counts for the run all the same."""
    usage = UsageRecord() if flight is None else flight.record.usage
    total = UsageRecord.of(standing.spent + usage.usage())
    accounts = with_accounts(
        standing.state.accounts, () if flight is None else flight.record.accounts
    )
    state = standing.state.model_copy(update={"usage": total, "accounts": accounts})
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
    commit = write(
        session.ledger, (ground, candidate), ground, changes, set_aside(entry, _work(flight, state))
    )
    session.ledger.advance(standing.branch, commit, drop_candidate=candidate)
    return replace(standing, commit=commit, branch=commit, state=state, history=history)
