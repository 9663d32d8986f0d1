"""A candidate in progress: pushed before it is evaluated, and taken up again after a kill."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from skillopt_ci.git.history import message, parents
from skillopt_ci.ledger.folder import document
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    StepRecord,
)
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.types import Account, Usage, role_of
from skillopt_ci.progress import Note
from skillopt_ci.training.run_context import Run
from skillopt_ci.training.state import Event, Settled, charged, history_entry, record_events


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may become the skill, and the record of how a step or an epoch's end made it.

    ``commit`` is None as long as it is not pushed, which one that changes nothing never is.
    """

    record: StepRecord | BoundaryRecord
    skill: str
    commit: str | None = None

    @property
    def changed(self) -> bool:
        record = self.record
        return record.changed if isinstance(record, BoundaryRecord) else record.proposal.changed

    @property
    def work(self) -> str:
        """What it is the candidate of, in words."""
        if isinstance(self.record, BoundaryRecord):
            return f"the end of epoch {self.record.epoch}"
        return f"step {self.record.step}"


def push_candidate(run: Run, standing: Settled, candidate: Candidate) -> Candidate:
    """Commit and push a candidate, so that a dead runner loses no optimizer work.

    Raises LostRace if another one is in flight, PushRefused if the remote will not have it.
    """
    record, folder = candidate.record, run.folder
    is_step = isinstance(record, StepRecord)
    path = folder.step(record.step) if is_step else folder.boundary(record.epoch)
    files = {run.skill_path: candidate.skill, path: document(record)}
    words = message(*run.render.candidate(record))
    commit = run.ledger.commit((standing.commit,), standing.commit, files, words)
    run.ledger.push_candidate(commit)
    return replace(candidate, commit=commit)


def find_candidate(
    run: Run, standing: Settled, commit: str | None
) -> tuple[Settled, Candidate | None]:
    """The candidate that an earlier run left at ``commit``, if it still fits the state.

    One that is already part of the branch is only tidied away. One made for another skill or
    history is set aside: it stays reachable, and the work is done again.
    """
    if commit is None:
        return standing, None
    if run.ledger.is_ancestor(commit, standing.commit):
        run.ledger.withdraw(commit)
        return standing, None
    found = candidate_at(run, standing, commit)
    if found is not None:
        run.observer(Note(f"Going on with the candidate in flight ({commit[:10]})."))
        return standing, found
    return _set_aside(run, standing, commit), None


def candidate_at(run: Run, standing: Settled, commit: str) -> Candidate | None:
    """The candidate at ``commit``; None if it is not of the work that comes next."""
    if parents(run.ledger.git, commit) != (standing.commit,):
        return None
    found, state = _read(run, commit), standing.state
    if found is None or found.record.decision is not None:
        return None
    if isinstance(found.record, BoundaryRecord):
        next_one = found.record.epoch > state.boundary and found.record.step == state.step
    else:
        next_one = found.record.step == state.step + 1
    return found if next_one else None


def _read(run: Run, commit: str) -> Candidate | None:
    """What the commit's trailers name, with the record that came with it."""
    read, folder = partial(run.ledger.read, commit), run.folder
    trailers = run.ledger.log(commit, limit=1)[0].trailers
    skill = read(run.skill_path)
    record: StepRecord | BoundaryRecord | None
    if "Skillopt-Epoch-End" in trailers:
        record = folder.read_boundary(read, _number(trailers, "Skillopt-Epoch"))
    else:
        record = folder.read_step(read, _number(trailers, "Skillopt-Step"))
    return None if skill is None or record is None else Candidate(record, skill, commit)


def _number(trailers: Mapping[str, str], key: str) -> int:
    value = trailers.get(key, "")
    return int(value) if value.isdecimal() else 0


def recharge(meter: Meter, candidate: Candidate) -> None:
    """Book what the candidate had cost when it was proposed; older records know only its stages."""
    record = candidate.record
    stages = record.stages if isinstance(record, BoundaryRecord) else record.proposal.usage
    known = record.accounts or {
        Account(role_of(stage), stage): used for stage, used in stages.items()
    }
    for account, usage in known.items():
        meter.charge(account, usage)


def _set_aside(run: Run, standing: Settled, commit: str) -> Settled:
    """Record that a candidate is given up; what it had cost counts for the run all the same."""
    found, state = _read(run, commit), standing.state
    reason = "the branch changed under it"
    run.observer(Note(f"Setting aside the candidate {commit[:10]}: {reason}"))
    usage, work = Usage(), f"step {state.step + 1}"
    if found is not None:
        usage, work = found.record.usage, found.work
        spent = charged(standing, usage, found.record.accounts)
        state = state.model_copy(update=spent)
    entry = history_entry(
        run,
        "set_aside",
        state,
        standing.skill,
        action="set_aside",
        reason=reason,
        score_after=state.current.measurement.score,
        usage=usage,
    )
    event = Event(entry, state, standing.skill, work=work)
    return record_events(run, standing, event, candidate=commit, end="set_aside")
