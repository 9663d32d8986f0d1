"""Move the run's branches, on the remote first and then here, each from where it is expected."""

from collections.abc import Mapping, Sequence

from skillopt_ci.errors import LostRace
from skillopt_ci.ledger import refs, remote
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.refs import Move, RunRefs
from skillopt_ci.ledger.sync import IsAncestor


def propose(git: Git, remote_name: str | None, names: RunRefs, candidate: str) -> None:
    """Make ``candidate`` the step in flight; a second time changes nothing.

    Raises LostRace if there is another one, PushRefused if the remote will not have it.
    """
    here, there = _candidate(git, remote_name, names)
    _expect_candidate(names, candidate, here, there)
    if remote_name is not None:
        remote.push(git, remote_name, (Move(names.candidate, there, candidate),))
    _follow(git, remote_name, (Move(names.candidate, here, candidate),), "propose a step")


def withdraw(git: Git, remote_name: str | None, names: RunRefs, candidate: str) -> None:
    """Give up the step in flight, if it is still this one; a second time changes nothing.

    Raises LostRace if another one is in flight, PushRefused if the remote keeps it.
    """
    here, there = _candidate(git, remote_name, names)
    _expect_candidate(names, candidate, here, there)
    # Here first: after a death in between, the next sync brings it back to be withdrawn again.
    refs.move(git, (Move(names.candidate, here, None),), "withdraw a step")
    if remote_name is not None and there is not None:
        remote.push(git, remote_name, (Move(names.candidate, there, None),))
        _follow(git, remote_name, (Move(names.candidate, None, None),), "withdraw a step")


def advance(
    git: Git,
    remote_name: str | None,
    names: RunRefs,
    skills: Move,
    drop_candidate: str | None,
    is_ancestor: IsAncestor,
) -> None:
    """Fast-forward the skills branch and drop the step in flight, both or neither.

    Raises LostRace if either is not where it is expected, PushRefused if the remote or a hook
    will not have it, ValueError if the move is no fast-forward.
    """
    if skills.new is None or (skills.old and not is_ancestor(skills.old, skills.new)):
        raise ValueError(f"{skills.new} is no fast-forward of {skills.old}")
    moves = [skills]
    if drop_candidate is not None:
        moves.append(Move(names.candidate, drop_candidate, None))
    tracked = _tracking(remote_name, *(move.ref for move in moves))
    seen = refs.read_to_move(git, names, *tracked.values())
    if remote_name is not None:
        _expect_here(seen, moves)
        there = {ref: seen.get(name) for ref, name in tracked.items()}
        remote.push(git, remote_name, _remote_moves(remote_name, there, moves, is_ancestor))
    _follow(git, remote_name, moves, "record a step")


def _tracking(remote_name: str | None, *names: str) -> dict[str, str]:
    """Name the refs that remember where those of ``names`` are on the remote, if there is one."""
    return {} if remote_name is None else {ref: refs.tracking(remote_name, ref) for ref in names}


def _candidate(git: Git, remote_name: str | None, names: RunRefs) -> tuple[str | None, str | None]:
    """Return where the step in flight is here, and where the remote was last seen to have it."""
    tracked = _tracking(remote_name, names.candidate)
    seen = refs.read_to_move(git, names, *tracked.values())
    return seen.get(names.candidate), seen.get(tracked.get(names.candidate, ""))


def _expect_candidate(names: RunRefs, candidate: str, *found: str | None) -> None:
    others = set(found) - {None, candidate}
    if others:
        raise LostRace(f"another step is in flight: {refs.branch(names.candidate)} is at {others}")


def _expect_here(here: Mapping[str, str], moves: Sequence[Move]) -> None:
    """Find out before the push what the transaction of the local refs would trip over."""
    for move in moves:
        if here.get(move.ref) != move.old:
            raise LostRace(
                f"{refs.branch(move.ref)} was moved in this repository: expected {move.old}, "
                f"found {here.get(move.ref)}"
            )


def _remote_moves(
    remote_name: str,
    seen: Mapping[str, str | None],
    moves: Sequence[Move],
    is_ancestor: IsAncestor,
) -> list[Move]:
    """Word the moves from where the remote was last seen: it may lack what was never pushed."""
    found = []
    for move in moves:
        there = seen[move.ref]
        if there is not None and (move.old is None or not is_ancestor(there, move.old)):
            raise LostRace(f"{refs.branch(move.ref)} is at {there} on {remote_name} by now")
        if there != move.new:
            found.append(Move(move.ref, there, move.new))
    return found


def _follow(git: Git, remote_name: str | None, moves: Sequence[Move], reason: str) -> None:
    """Move the local refs, and the tracking refs that git did not move itself while pushing."""
    tracked = _tracking(remote_name, *(move.ref for move in moves))
    there = refs.read(git, *tracked.values()) if tracked else {}
    tracking = [
        Move(tracked[move.ref], there.get(tracked[move.ref]), move.new) for move in moves if tracked
    ]
    refs.move(git, (*moves, *tracking), reason)
