"""Land: a verdict becomes commits, and the skills branch moves there in one push."""

from collections.abc import Mapping
from dataclasses import dataclass

from skillopt_ci.ledger.records import Decision, Measurement, Snapshot, State
from skillopt_ci.report.commits import CommitText
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled, write


@dataclass(frozen=True, slots=True)
class Afterwards:
    """A plain commit on top of a verdict."""

    changes: Mapping[str, str | None]
    text: CommitText


@dataclass(frozen=True, slots=True)
class Landing:
    """What is to be recorded: ``candidate`` is None where the skill was not changed.

    ``stays`` tells a merge from a revert. ``changes`` are files of the run's folder. What comes
    ``afterwards`` reaches the branch in the same push.
    """

    candidate: str | None
    stays: bool
    changes: Mapping[str, str | None]
    text: CommitText
    afterwards: Afterwards | None = None


def land(session: Session, standing: Settled, landing: Landing) -> str:
    """Commit a merge, a true revert, or a plain commit without candidate; return the commit."""
    ground, candidate = standing.commit, landing.candidate
    if candidate is None:
        commit = write(session.ledger, (ground,), ground, landing.changes, landing.text)
    elif landing.stays:
        both = (ground, candidate)
        commit = write(session.ledger, both, candidate, landing.changes, landing.text)
    else:
        commit = write(session.ledger, (candidate,), ground, landing.changes, landing.text)
    if (more := landing.afterwards) is not None:
        commit = write(session.ledger, (commit,), commit, more.changes, more.text)
    session.ledger.advance(standing.branch, commit, drop_candidate=candidate)
    return commit


def snapshots(state: State, decision: Decision | None, after: Snapshot | None) -> dict[str, object]:
    """What a verdict changes in the state: the current skill, and the best one if it is beaten.

    Both are always texts that were measured as they stand, on all selection tasks. Where the
    current skill stays, attempts that were added to its measurement count from now on.
    """
    if decision is None:
        return {}
    if after is None or not decision.stays:
        return _measured_again(state, decision.incumbent)
    if decision.baseline is not None:
        after = after.model_copy(update={"measurement": decision.baseline})
    return {"current": after, "best": after} if decision.beats_best else {"current": after}


def planned(decision: Decision) -> int:
    """The number of tasks that were to be measured, if fewer were; else 0."""
    return 0 if decision.measurement is None else decision.measurement.planned


def _measured_again(state: State, found: Measurement | None) -> dict[str, object]:
    if found is None:
        return {}
    again = state.current.model_copy(update={"measurement": found})
    return {"current": again, **({"best": again} if state.best == state.current else {})}
