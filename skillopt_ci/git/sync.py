"""Where a run's branches are, and moving them: on the remote first, then here, all or none."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from skillopt_ci.errors import InfrastructureError, LostRace, RepositoryError
from skillopt_ci.git import objects, refs, remote
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import HEADS, Move, RunRefs, branch, nearest, tracking


@dataclass(frozen=True, slots=True)
class Heads:
    """Where the run's three branches are; ``tip`` is that of the skills branch."""

    base: str
    tip: str | None
    candidate: str | None


@dataclass(frozen=True, slots=True)
class _Sighting:
    """One branch as it is here, as it is on the remote, and as the remote last had it."""

    ref: str
    here: str | None
    there: str | None
    known: str | None


@dataclass(frozen=True, slots=True)
class RunBranches:
    """The branches of one run; with a ``remote`` that one is the truth.

    ``is_ancestor`` tells whether its first commit is an ancestor of the second, or the same.
    """

    git: Git
    remote: str | None
    names: RunRefs
    is_ancestor: Callable[[str, str], bool]

    def heads(self) -> Heads:
        """Find the branches; fetch them and make the local ones follow if there is a remote.

        Local branches stay while one of them is checked out. A skills branch that was deleted on
        the remote is deleted here too, but what it held stays reachable under
        ``refs/skillopt-ci/deleted/``; commits that were never pushed count and stay. Raises
        RepositoryError if local and remote history have diverged, or without a base branch;
        InfrastructureError if the remote cannot be read.
        """
        git, names = self.git, self.names
        if self.remote is None:
            found = refs.read(git, *names.all)
            if names.base not in found:
                everything = git.text("for-each-ref", "--format=%(refname)", HEADS).splitlines()
                raise _no_base(names, everything, "this repository")
            return Heads(found[names.base], found.get(names.skills), found.get(names.candidate))
        before = refs.read(git, *names.own, *(tracking(self.remote, name) for name in names.own))
        there = _fetch_existing(git, self.remote, names)
        skills, candidate = (
            _Sighting(ref, before.get(ref), there.get(ref), before.get(tracking(self.remote, ref)))
            for ref in names.own
        )
        tip = self._resolve_tip(skills, self.remote)
        # a local candidate counts only if it never was on the remote and was not decided on
        flying = candidate.there
        if flying is None and candidate.here is not None and candidate.known is None:
            decided = tip is not None and self.is_ancestor(candidate.here, tip)
            flying = None if decided else candidate.here
        moves = (*self._follow(skills, tip), *self._follow(candidate, flying))
        if refs.change_something(moves) and refs.worktree_of(git, *names.own) is None:
            refs.move(git, moves, f"follow {self.remote}")
        return Heads(there[names.base], tip, flying)

    def _resolve_tip(self, seen: _Sighting, remote_name: str) -> str | None:
        here, there, name = seen.here, seen.there, branch(seen.ref)
        if here is None or here == there:
            return there
        if there is None:
            if seen.known is None:
                return here
            if self.is_ancestor(here, seen.known):
                return None
            raise RepositoryError(
                f"{name} was deleted on {remote_name}, but has commits here that were never pushed",
                hint=f"To go on with them: git push {remote_name} {name}\n"
                f"To start afresh from the base branch: git branch -m {name} {name}-mine",
            )
        if self.is_ancestor(here, there):
            return there
        if self.is_ancestor(there, here):
            return here
        raise RepositoryError(
            f"{name} has diverged from {remote_name}: {here[:12]} here, {there[:12]} there",
            hint=f"Keep one. To follow {remote_name}: git branch -m {name} {name}-mine\n"
            f"To keep yours: merge {remote_name}/{name} into it and push.",
        )

    def _follow(self, seen: _Sighting, value: str | None) -> Iterable[Move]:
        yield Move(seen.ref, seen.here, value)
        if seen.there is None:
            yield Move(tracking(self.remote or "", seen.ref), seen.known, None)
        if seen.here is not None and value is None:
            grave = f"{refs.deleted(seen.ref)}/{seen.here[:12]}"
            yield Move(grave, refs.read(self.git, grave).get(grave), seen.here)

    def push_candidate(self, candidate: str) -> None:
        """Make ``candidate`` the step in flight; a second time changes nothing.

        Raises LostRace if there is another one, PushRefused if the remote will not have it.
        """
        here, there = self._candidate(candidate)
        if self.remote is not None:
            remote.push(self.git, self.remote, (Move(self.names.candidate, there, candidate),))
        self._record((Move(self.names.candidate, here, candidate),), "propose a step")

    def withdraw(self, candidate: str) -> None:
        """Give up the step in flight, if it is still this one; a second time changes nothing.

        Raises LostRace if another one is in flight, PushRefused if the remote keeps it.
        """
        name = self.names.candidate
        here, there = self._candidate(candidate)
        # Here first: after a death in between, the next sync brings it back to be withdrawn again.
        refs.move(self.git, (Move(name, here, None),), "withdraw a step")
        if self.remote is not None and there is not None:
            remote.push(self.git, self.remote, (Move(name, there, None),))
            self._record((Move(name, None, None),), "withdraw a step")

    def _candidate(self, expected: str) -> tuple[str | None, str | None]:
        """Where the step in flight is, here and on the remote; raises LostRace if elsewhere."""
        name = self.names.candidate
        seen = refs.read_to_move(self.git, self.names, *self._tracked(name).values())
        here, there = seen.get(name), seen.get(self._tracked(name).get(name, ""))
        if others := {here, there} - {None, expected}:
            raise LostRace(f"another step is in flight: {branch(name)} is at {others}")
        return here, there

    def advance(self, skills: Move, drop_candidate: str | None) -> None:
        """Fast-forward the skills branch and drop the step in flight, both or neither.

        Raises LostRace if either is not where it is expected, PushRefused if the remote or a hook
        will not have it, ValueError if the move is no fast-forward.
        """
        if skills.new is None or (skills.old and not self.is_ancestor(skills.old, skills.new)):
            raise ValueError(f"{skills.new} is no fast-forward of {skills.old}")
        moves = [skills]
        if drop_candidate is not None:
            moves.append(Move(self.names.candidate, drop_candidate, None))
        tracked = self._tracked(*(move.ref for move in moves))
        seen = refs.read_to_move(self.git, self.names, *tracked.values())
        if self.remote is not None:
            pushed = []
            for move in moves:
                # what the transaction of the local refs would fail on after the push
                if seen.get(move.ref) != move.old:
                    raise LostRace(
                        f"{branch(move.ref)} was moved in this repository: expected {move.old}, "
                        f"found {seen.get(move.ref)}"
                    )
                # the remote may lack what was never pushed
                there = seen.get(tracked[move.ref])
                behind = move.old is not None and there and self.is_ancestor(there, move.old)
                if there is not None and not behind:
                    raise LostRace(f"{branch(move.ref)} is at {there} on {self.remote} by now")
                if there != move.new:
                    pushed.append(Move(move.ref, there, move.new))
            remote.push(self.git, self.remote, pushed)
        self._record(moves, "record a step")

    def _tracked(self, *names: str) -> dict[str, str]:
        return {ref: tracking(self.remote, ref) for ref in names if self.remote is not None}

    def _record(self, moves: Sequence[Move], reason: str) -> None:
        """Move the local refs, and the tracking refs that git did not move itself while pushing."""
        tracked = self._tracked(*(move.ref for move in moves))
        there = refs.read(self.git, *tracked.values()) if tracked else {}
        followed = [
            Move(tracked[m.ref], there.get(tracked[m.ref]), m.new) for m in moves if tracked
        ]
        refs.move(self.git, (*moves, *followed), reason)

    def check(self, base: str) -> None:
        """Try everything that recording a step will need.

        Raises RepositoryError (identity, signing, a checked-out or colliding branch),
        InfrastructureError or PushRefused (the remote cannot be reached or written).
        """
        objects.require_identity(self.git)
        if objects.signs(self.git):
            objects.write_commit(self.git, f"{base}^{{tree}}", (base,), "Try out signing\n")
        here = refs.read_to_move(self.git, self.names, HEADS)
        _refuse_collisions(here, self.names, "this repository")
        if self.remote is not None:
            there = remote.heads(self.git, self.remote, f"{HEADS}*")
            _refuse_collisions(there, self.names, self.remote)
            attempt = Move(self.names.candidate, there.get(self.names.candidate), base)
            remote.push(self.git, self.remote, (attempt,), "--dry-run")


def _fetch_existing(git: Git, remote_name: str, names: RunRefs) -> dict[str, str]:
    """Fetch those of the run's branches that the remote has; return where they are now."""
    there = remote.heads(git, remote_name, *names.all)
    existing = [name for name in names.all if name in there]
    if names.base not in existing:
        raise _no_base(names, remote.heads(git, remote_name, f"{HEADS}*"), remote_name)
    try:
        remote.fetch(git, remote_name, existing)
    except InfrastructureError:
        # one of them may have been deleted in between
        still_there = remote.heads(git, remote_name, *existing)
        if len(still_there) == len(existing):
            raise
        existing = [name for name in existing if name in still_there]
        remote.fetch(git, remote_name, existing)
    fetched = refs.read(git, *(tracking(remote_name, name) for name in existing))
    return {name: fetched[tracking(remote_name, name)] for name in existing}


def _no_base(names: RunRefs, existing: Iterable[str], where: str) -> RepositoryError:
    suggestion = nearest(branch(names.base), [branch(ref) for ref in existing])
    return RepositoryError(
        f"there is no branch {branch(names.base)!r} in {where}, the base that users work on",
        hint=f"{suggestion} Push the branch, or name another one with `git.base`.".strip(),
    )


def _refuse_collisions(existing: Iterable[str], names: RunRefs, where: str) -> None:
    for ref in existing:
        for wanted in names.own:
            if ref.startswith(f"{wanted}/") or wanted.startswith(f"{ref}/"):
                raise RepositoryError(
                    f"branch {branch(ref)!r} in {where} is in the way of {branch(wanted)!r}: git "
                    "keeps branches like files in folders",
                    hint=f"Rename it: git branch -m {branch(ref)} {branch(ref)}-old",
                )


def require_files(git: Git, commit: str, paths: Sequence[str], where: str) -> None:
    """Raise RepositoryError unless each path is a regular file of ``commit``."""
    for path in paths:
        if objects.file_entry(git, commit, path) is None:
            uncommitted = (git.folder / path).exists()
            raise RepositoryError(
                f"{path} is not committed on {where}",
                hint="Commit it there; with a remote, push it too."
                if uncommitted
                else nearest(path, list(objects.list_files(git, commit, ""))),
            )
