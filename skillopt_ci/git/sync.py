"""Learn where a run stands, and make the local refs say the same as the remote."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from skillopt_ci.errors import InfrastructureError, LostRace, RepositoryError
from skillopt_ci.git import history, objects, refs
from skillopt_ci.git.objects import read_blob, write_blob
from skillopt_ci.git.process import Entry, Git
from skillopt_ci.git.refs import Move, RunRefs, deleted, nearest

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
    there = refs.heads(git, remote_name, *names.all)
    existing = [name for name in names.all if name in there]
    if names.base not in existing:
        raise _no_base(names, list(refs.heads(git, remote_name, "refs/heads/*")), remote_name)
    try:
        refs.fetch(git, remote_name, existing)
    except InfrastructureError:
        still_there = refs.heads(git, remote_name, *existing)
        if len(still_there) == len(existing):
            raise
        existing = [name for name in existing if name in still_there]
        refs.fetch(git, remote_name, existing)
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


# Move the run's branches, on the remote first and then here, each from where it is expected.


def propose(git: Git, remote_name: str | None, names: RunRefs, candidate: str) -> None:
    """Make ``candidate`` the step in flight; a second time changes nothing.

    Raises LostRace if there is another one, PushRefused if the remote will not have it.
    """
    here, there = _candidate(git, remote_name, names)
    _expect_candidate(names, candidate, here, there)
    if remote_name is not None:
        refs.push(git, remote_name, (Move(names.candidate, there, candidate),))
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
        refs.push(git, remote_name, (Move(names.candidate, there, None),))
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
        refs.push(git, remote_name, _remote_moves(remote_name, there, moves, is_ancestor))
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


# What can be known to fail is found before anything is paid for.


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


def check(git: Git, remote_name: str | None, names: RunRefs, base: str) -> None:
    """Try everything that recording a step will need.

    Raises RepositoryError (identity, signing, a checked-out or colliding branch),
    InfrastructureError or PushRefused (the remote cannot be reached or written).
    """
    objects.require_identity(git)
    if objects.signs(git):
        objects.write_commit(git, f"{base}^{{tree}}", (base,), "Try out signing\n")
    _refuse_collisions(refs.branches_to_move(git, names), names, "this repository")
    if remote_name is not None:
        there = refs.heads(git, remote_name, "refs/heads/*")
        _refuse_collisions(there, names, remote_name)
        attempt = Move(names.candidate, there.get(names.candidate), base)
        refs.push(git, remote_name, (attempt,), "--dry-run")


def _refuse_collisions(existing: Iterable[str], names: RunRefs, where: str) -> None:
    for wanted in (names.skills, names.candidate):
        for ref in existing:
            if ref.startswith(f"{wanted}/") or wanted.startswith(f"{ref}/"):
                raise RepositoryError(
                    f"branch {refs.branch(ref)!r} in {where} is in the way of "
                    f"{refs.branch(wanted)!r}: git keeps branches like files in folders",
                    hint=f"Rename it: git branch -m {refs.branch(ref)} {refs.branch(ref)}-old",
                )


# One training process per run and repository; it begins by clearing what a killed one left.

#: git holds the lock of a ref for an instant, and for as long as a hook takes: a lock of this age
#: that no git at work here can own was left by a killed one.
STALE_SECONDS = 30.0
_LOOK_AGAIN_SECONDS = 0.25

_PROC = Path("/proc")
_LOCKS = _PROC / "locks"
#: What git locks or writes beside the refs themselves when it moves or fetches some.
_BESIDE_REFS = ("packed-refs.lock", "packed-refs.new", "shallow.lock")
#: Commands that run for long and lock no ref; other runs of ours have the first three at work.
_READERS = {
    "cat-file", "hash-object", "mktree", "diff", "fsmonitor--daemon", "grep", "log", "show",
}  # fmt: skip


@contextmanager
def run_lock(common_dir: Path, run: str) -> Iterator[None]:
    """Hold the lock of ``run``; the kernel lets go of it when the process dies.

    Raises LostRace at once if another process (in any worktree of the repository) holds it.
    """
    file = _lock_file(common_dir, run)
    file.parent.mkdir(exist_ok=True)
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise LostRace(
            f"another skillopt-ci is training run {run!r} in this repository",
            hint=f"Wait for it to end. It holds {lock.lock_file}",
        ) from error
    try:
        yield
    finally:
        lock.release()


def is_held(common_dir: Path, run: str) -> bool:
    """Whether a process holds the lock of ``run``, as far as this system tells (Linux does).

    Asks the kernel's list of locks: an attempt to take the lock, however short, could make a
    command fail that begins just now.
    """
    try:
        inode = _lock_file(common_dir, run).stat().st_ino
        held = _LOCKS.read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    # `1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF`
    return any(f":{inode} " in line and " FLOCK " in line for line in held)


def _lock_file(common_dir: Path, run: str) -> Path:
    return common_dir / "skillopt-ci" / f"{run}.lock"


def clear_stale_locks(
    git: Git,
    common_dir: Path,
    names: Sequence[str],
    tell: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Remove locks that a killed git left on the refs ``names``, and on what all refs share.

    To be called with the run's lock held. A young lock is waited for: it goes away by itself or
    becomes stale. Raises RepositoryError if a git that is at work keeps one.
    """
    files = [common_dir / name for name in (*(f"{ref}.lock" for ref in names), *_BESIDE_REFS)]
    files += [file for ref in names for file in (common_dir / deleted(ref)).glob("*.lock")]
    began, told = clock(), False
    while left := [(file, seen) for file in files if (seen := _written(file)) is not None]:
        worker = _git_at_work(git)
        for file, seen in left:
            # absolute: the clock may have been put back
            age = abs(clock() - seen)
            if worker is None and age >= STALE_SECONDS and _written(file) == seen:
                _remove(file)
                tell(f"Removed {file}, {age:.0f} s old: a git that was killed left it.")
        waiting = [file for file, _ in left if _written(file) is not None]
        waited = clock() - began
        if waiting and waited >= 2 * STALE_SECONDS:
            raise RepositoryError(
                f"{worker or 'another git'} is at work and may hold {waiting[0]}",
                hint="Wait for it to end, or end it, and run again: a lock that is left behind is "
                "removed then.",
            )
        if waiting and waited >= 1 and not told:
            told = True
            until = f"{worker} may hold it" if worker else f"removed when {STALE_SECONDS:.0f} s old"
            tell(f"Waiting for {waiting[0]}: {until}.")
        if waiting:
            pause(_LOOK_AGAIN_SECONDS)


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise RepositoryError(
            f"a git that was killed left {file}, and it cannot be removed: {error.strerror}",
            hint="Remove it by hand.",
        ) from error


def _written(file: Path) -> float | None:
    try:
        return file.lstat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None


def _git_at_work(git: Git) -> str | None:
    """Name a process of git that works in this repository and may lock refs, if there is one.

    As far as this system tells: on Linux, of processes that we may look into.
    """
    places = [
        Path(line.removeprefix("worktree ")).resolve()
        for line in git.text("worktree", "list", "--porcelain").splitlines()
        if line.startswith("worktree ")
    ]
    for process in _PROC.glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            place = (process / "cwd").readlink()
        except OSError:
            continue
        is_git = Path(words[0]).name.partition("-")[0] == "git"
        if is_git and not _READERS & set(words) and any(map(place.is_relative_to, places)):
            return f"git (process {process.name})"
    return None


# Three-way merge of two commits in a private index: no checkout is needed or touched.

_REGULAR = ("100644", "100755")

#: Of one path: merge base, ours, theirs, as far as they have it.
Stages = dict[int, Entry]


@dataclass(frozen=True, slots=True)
class TakeIn:
    """The merged tree, or the paths over which the two sides disagree."""

    tree: str | None
    conflicts: tuple[str, ...] = ()


def merge_trees(git: Git, ours: str, theirs: str, keep: tuple[str, ...]) -> TakeIn:
    """Merge ``theirs`` into ``ours``; at and below the paths of ``keep``, ours stays as it is.

    Raises RepositoryError if the two have no common ancestor.
    """
    origin = history.merge_base(git, ours, theirs)
    if origin is None:
        raise RepositoryError(f"{ours[:12]} and {theirs[:12]} have no common history")
    with _private_index(git) as indexed:
        indexed.run("read-tree", "-i", "-m", "--aggressive", origin, ours, theirs)
        _restore(indexed, ours, keep)
        merged = {path: _merge_file(git, stages) for path, stages in _unmerged(indexed).items()}
        conflicts = tuple(path for path, found in merged.items() if found is None)
        if conflicts:
            return TakeIn(None, conflicts)
        _put_entries(indexed, merged)
        return TakeIn(indexed.text("write-tree"))


@contextmanager
def _private_index(git: Git) -> Iterator[Git]:
    """Give a git whose index is an empty file of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-") as folder:
        yield git.with_env(GIT_INDEX_FILE=str(Path(folder) / "index"))


def _put_entries(indexed: Git, entries: Mapping[str, Entry | None]) -> None:
    """Set entries of the private index; None removes. Their paths are those of trees."""
    absent = "0 " + "0" * len(indexed.text("hash-object", "--stdin"))
    lines = (
        f"{absent if found is None else f'{found.mode} {found.oid}'}\t{path}\0"
        for path, found in entries.items()
    )
    stdin = "".join(lines).encode("utf-8", "surrogateescape")
    indexed.run("update-index", "-z", "--index-info", stdin=stdin)


def _restore(indexed: Git, ours: str, keep: tuple[str, ...]) -> None:
    if not keep:
        return
    present = indexed.records("ls-files", "-z", "--cached", "--", *keep)
    entries: dict[str, Entry | None] = dict.fromkeys(present)
    for record in indexed.records("ls-tree", "-r", "-z", "--full-tree", ours, "--", *keep):
        facts, _, path = record.partition("\t")
        mode, _, oid = facts.split(" ")
        entries[path] = Entry(mode, oid)
    _put_entries(indexed, entries)


def _unmerged(indexed: Git) -> dict[str, Stages]:
    found: dict[str, Stages] = {}
    for record in indexed.records("ls-files", "-z", "--unmerged"):
        facts, _, path = record.partition("\t")
        mode, oid, stage = facts.split(" ")
        found.setdefault(path, {})[int(stage)] = Entry(mode, oid)
    return found


def _merge_file(git: Git, stages: Stages) -> Entry | None:
    """Merge one file's three versions; None if they conflict or one is not a regular file."""
    versions = [stages.get(number) for number in (2, 1, 3)]
    entries = [version for version in versions if version and version.mode in _REGULAR]
    if len(entries) != len(versions):
        return None
    ours, origin, theirs = entries
    content = _merge_contents(git, [entry.oid for entry in entries])
    if content is None:
        return None
    return Entry(theirs.mode if ours.mode == origin.mode else ours.mode, write_blob(git, content))


def _merge_contents(git: Git, oids: list[str]) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-") as folder:
        files = [Path(folder) / name for name in ("ours", "origin", "theirs")]
        for file, oid in zip(files, oids, strict=True):
            file.write_bytes(read_blob(git, oid))
        merged = git.attempt("merge-file", "-p", "--quiet", *(str(file) for file in files))
    return merged.stdout if merged.status == 0 else None
