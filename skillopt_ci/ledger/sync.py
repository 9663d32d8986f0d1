"""Learn where a run stands, and make the local refs say the same as the remote."""

from collections.abc import Callable
from dataclasses import dataclass

from skillopt_ci.errors import InfrastructureError, RepositoryError
from skillopt_ci.ledger import refs, remote
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.refs import Move, RunRefs
from skillopt_ci.ledger.repository import nearest

#: Tells whether the first commit is an ancestor of the second, or the same.
IsAncestor = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Heads:
    """Where the run's three branches are; ``tip`` is that of the skills branch."""

    base: str
    tip: str | None
    candidate: str | None


@dataclass(frozen=True, slots=True)
class Sighting:
    """One branch as it is here, as it is on the remote, and as the remote last had it."""

    ref: str
    here: str | None
    there: str | None
    known: str | None


def local_heads(git: Git, names: RunRefs) -> Heads:
    """Read the branches of a repository that has no remote.

    Raises RepositoryError if there is no base branch.
    """
    found = refs.read(git, *names.all)
    if names.base not in found:
        everything = git.text("for-each-ref", "--format=%(refname)", "refs/heads/").splitlines()
        raise _no_base(names, everything, "this repository")
    return Heads(found[names.base], found.get(names.skills), found.get(names.candidate))


def follow_remote(git: Git, remote_name: str, names: RunRefs, is_ancestor: IsAncestor) -> Heads:
    """Fetch the run's branches and make the local ones follow, unless one is checked out.

    A skills branch that was deleted on the remote is deleted here too, but what it held stays
    reachable under ``refs/skillopt-ci/deleted/``; commits that were never pushed count and stay.
    Raises RepositoryError if local and remote history have parted, or without a base branch;
    InfrastructureError if the remote cannot be read.
    """
    own = (names.skills, names.candidate)
    before = refs.read(git, *own, *(refs.tracking(remote_name, name) for name in own))
    there = _fetch_existing(git, remote_name, names)
    skills, candidate = (
        Sighting(ref, before.get(ref), there.get(ref), before.get(refs.tracking(remote_name, ref)))
        for ref in own
    )
    tip = _settle_tip(skills, remote_name, is_ancestor)
    flying = _settle_candidate(candidate, tip, is_ancestor)
    moves = _mirror(git, remote_name, skills, tip) + _mirror(git, remote_name, candidate, flying)
    if refs.change_something(moves) and refs.worktree_of(git, *own) is None:
        refs.move(git, moves, f"follow {remote_name}")
    return Heads(there[names.base], tip, flying)


def _fetch_existing(git: Git, remote_name: str, names: RunRefs) -> dict[str, str]:
    """Fetch those of the run's branches that the remote has; return where they are now."""
    there = remote.heads(git, remote_name, *names.all)
    existing = [name for name in names.all if name in there]
    if names.base not in existing:
        raise _no_base(names, list(remote.heads(git, remote_name, "refs/heads/*")), remote_name)
    try:
        remote.fetch(git, remote_name, existing)
    except InfrastructureError:
        still_there = remote.heads(git, remote_name, *existing)
        if len(still_there) == len(existing):
            raise
        existing = [name for name in existing if name in still_there]
        remote.fetch(git, remote_name, existing)
    fetched = refs.read(git, *(refs.tracking(remote_name, name) for name in existing))
    return {name: fetched[refs.tracking(remote_name, name)] for name in existing}


def _no_base(names: RunRefs, existing: list[str], where: str) -> RepositoryError:
    base = refs.branch(names.base)
    suggestion = nearest(base, [refs.branch(ref) for ref in existing])
    return RepositoryError(
        f"there is no branch {base!r} in {where}, the base that users work on",
        hint=f"{suggestion} Push the branch, or name another one with `git.base`.".strip(),
    )


def _settle_tip(seen: Sighting, remote_name: str, is_ancestor: IsAncestor) -> str | None:
    here, there = seen.here, seen.there
    if here is None or here == there:
        return there
    if there is None:
        return _settle_deleted_tip(seen, remote_name, is_ancestor)
    if is_ancestor(here, there):
        return there
    if is_ancestor(there, here):
        return here
    name = refs.branch(seen.ref)
    raise RepositoryError(
        f"{name} has parted from {remote_name}: {here[:12]} here, {there[:12]} there",
        hint=f"Keep one. To follow {remote_name}: git branch -m {name} {name}-mine\n"
        f"To keep yours: merge {remote_name}/{name} into it and push.",
    )


def _settle_deleted_tip(seen: Sighting, remote_name: str, is_ancestor: IsAncestor) -> str | None:
    if seen.here is None or seen.known is None:
        return seen.here
    if is_ancestor(seen.here, seen.known):
        return None
    name = refs.branch(seen.ref)
    raise RepositoryError(
        f"{name} was deleted on {remote_name}, but has commits here that were never pushed",
        hint=f"To go on with them: git push {remote_name} {name}\n"
        f"To start afresh from the base branch: git branch -m {name} {name}-mine",
    )


def _settle_candidate(seen: Sighting, tip: str | None, is_ancestor: IsAncestor) -> str | None:
    """A local candidate counts only if it never was on the remote and was not decided on."""
    if seen.there is not None or seen.here is None or seen.known is not None:
        return seen.there
    decided = tip is not None and is_ancestor(seen.here, tip)
    return None if decided else seen.here


def _mirror(git: Git, remote_name: str, seen: Sighting, value: str | None) -> tuple[Move, ...]:
    moves = [Move(seen.ref, seen.here, value)]
    if seen.there is None:
        moves.append(Move(refs.tracking(remote_name, seen.ref), seen.known, None))
    if seen.here is not None and value is None:
        grave = f"{refs.deleted(seen.ref)}/{seen.here[:12]}"
        moves.append(Move(grave, refs.read(git, grave).get(grave), seen.here))
    return tuple(moves)
