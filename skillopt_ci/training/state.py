"""Where training stands: the commit that the next one is built on, and what it remembers."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from skillopt_ci.config.reference import changed_keys, recordable
from skillopt_ci.errors import RepositoryError, SkillError
from skillopt_ci.git.history import CommitText, message
from skillopt_ci.ledger.ledger import Ledger, Position
from skillopt_ci.ledger.records import Basis, Decision, HistoryEntry, Measurement, Snapshot, State
from skillopt_ci.model.types import Usage
from skillopt_ci.report.commits import took_in_base
from skillopt_ci.skill.document import sha256
from skillopt_ci.training.run_context import Session


@dataclass(frozen=True, slots=True)
class Standing:
    """The ground of the next commit.

    ``commit`` is the next commit's parent; ``branch`` is where the skills branch points (None
    while it does not exist), which is what must still hold when it is moved. ``state`` is None
    before the first measurement.
    """

    commit: str
    branch: str | None
    skill: str
    state: State | None
    history: tuple[HistoryEntry, ...]

    @property
    def sha256(self) -> str:
        """Hash of the skill as it stands."""
        return sha256(self.skill)

    @property
    def spent(self) -> Usage:
        """What the run has consumed so far."""
        return Usage() if self.state is None else self.state.usage.usage()


@dataclass(frozen=True, slots=True)
class Settled(Standing):
    """A ground whose skill has a valid score."""

    state: State


def find_standing(session: Session, position: Position) -> Standing:
    """The ground to build on, after taking in what happened to the branches meanwhile.

    - No skills branch: the base branch, which remembers the run if it was merged before.
    - The skills branch is merged into base: base, which is a fast-forward of it.
    - Base changed the skill (or the run's folder, by a squash merge): a merge of base into the
      skills branch, published at once.
    - Otherwise the skills branch; base may have moved on in other files.
    """
    return _standing(session, position, _take_in_base)


def foresee_standing(session: Session, position: Position) -> Standing:
    """The ground that :func:`find_standing` would find; nothing is published.

    Where base would be taken in, ``commit`` and ``branch`` are the merged tree.
    """
    return _standing(session, position, _merged_with_base)


def _standing(
    session: Session, position: Position, take_in: Callable[[Session, str, str], str]
) -> Standing:
    tip = position.tip
    if tip is None or position.tip_in_base:
        return read_standing(session, position.base, branch=tip)
    if not position.base_in_tip and _changed_on_base(session, tip, position.base):
        tip = take_in(session, tip, position.base)
    return read_standing(session, tip, branch=tip)


def read_standing(session: Session, commit: str, branch: str | None) -> Standing:
    """What the tree of ``commit`` says."""
    read = partial(session.ledger.read, commit)
    folder = session.folder
    state = folder.read_state(read)
    _refuse_other_run(session, state)
    skill = read(session.skill_path)
    if skill is None:
        raise SkillError(
            f"{session.skill_path} is not in the commit that training starts from "
            f"({session.ledger.base} {commit[:10]}).",
            hint=f"Commit it there first (git add {session.skill_path} && git commit), or mend "
            "`skill` in the configuration if it is to name another file.",
        )
    return Standing(commit, branch, skill, state, folder.read_history(read))


def publish(
    session: Session,
    standing: Standing,
    text: CommitText,
    changes: Mapping[str, str | None],
) -> Standing:
    """Commit ``changes`` on the ground, move the skills branch there and stand on it."""
    ledger = session.ledger
    new = write(ledger, (standing.commit,), standing.commit, changes, text)
    ledger.advance(standing.branch, new)
    return read_standing(session, new, branch=new)


def write(
    ledger: Ledger,
    parents: Sequence[str],
    tree_of: str,
    changes: Mapping[str, str | None],
    text: CommitText,
) -> str:
    """Write a commit with the tree of ``tree_of`` plus ``changes``; no branch moves yet."""
    return ledger.commit(parents, tree_of, changes, message(text.subject, text.body, text.trailers))


def _refuse_other_run(session: Session, state: State | None) -> None:
    if state is not None and state.skill != session.skill_path:
        raise RepositoryError(
            f"Run '{state.run}' trains {state.skill}, but the configuration names "
            f"{session.skill_path}.",
            hint="Give the other skill a run of its own: change `run` in the configuration.",
        )


def _changed_on_base(session: Session, tip: str, base: str) -> bool:
    ledger = session.ledger
    root = ledger.merge_base(tip, base)
    if root is None:
        raise RepositoryError(
            f"skillopt/{session.config.run} and {ledger.base} have no common history.",
            hint="Choose another `run` name, or delete that branch if it is not a training run.",
        )
    return bool(ledger.changed_between(root, base, (session.skill_path, session.folder.path)))


def _take_in_base(session: Session, tip: str, base: str) -> str:
    ledger, tree = session.ledger, _merged_with_base(session, tip, base)
    text = took_in_base(ledger.base, session.skill_path)
    commit = write(ledger, (tip, base), tree, {}, text)
    ledger.advance(tip, commit)
    return commit


def _merged_with_base(session: Session, tip: str, base: str) -> str:
    """The tree of the merge; raises RepositoryError if people must do it."""
    ledger = session.ledger
    keep = [session.folder.path, *session.folder.furniture()]
    if _holds_earlier_state(session, tip, base):
        keep.append(session.skill_path)
    merged = ledger.take_in_base(tip, base, keep)
    if merged.tree is None:
        raise RepositoryError(
            f"{', '.join(merged.conflicts)} changed both on {ledger.base} and on "
            f"skillopt/{session.config.run}, in the same places.",
            hint=f"Merge {ledger.base} into skillopt/{session.config.run} by hand, push it, and "
            "run the step again: the merged skill is then measured and trained on.",
        )
    return merged.tree


def _holds_earlier_state(session: Session, tip: str, base: str) -> bool:
    """Whether base has the run, and the skill, as the skills branch once was.

    So it is after a squash merge, which leaves no trace in the ancestry: the skill of the branch
    has grown out of that of base, and a three-way merge would call this a conflict.
    """
    now, then = (read_standing(session, commit, branch=None) for commit in (tip, base))
    return (
        then.state is not None
        and then.state.current.sha256 == then.sha256
        and now.history[: len(then.history)] == then.history
    )


# Land: a verdict becomes commits, and the skills branch moves there in one push.


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


# Basis: what a step is proposed under, and what of it changed since the step before.


def basis_of(session: Session) -> Basis:
    """The basis of steps from now on."""
    return Basis.model_validate(
        {
            "config": recordable(session.config),
            "train_size": len(session.splits.train),
            "train_sha256": session.train_sha256,
        }
    )


def basis_sha256(basis: Basis) -> str:
    """A name for ``basis``."""
    return hashlib.sha256(basis.model_dump_json().encode("utf-8")).hexdigest()


def changes_since(before: Basis | None, now: Basis) -> tuple[str, ...]:
    """What changed, in words: keys of the configuration, and the training tasks."""
    if before is None:
        return ()
    keys = changed_keys(before.config, now.config)
    if before.train_sha256 == now.train_sha256:
        return keys
    sizes = f"{before.train_size} → {now.train_size}"
    same = before.train_size == now.train_size
    return (*keys, "the training tasks" if same else f"the training tasks ({sizes})")
