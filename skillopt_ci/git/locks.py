"""Allow one training process per run and repository; clear locks that a killed one left."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from skillopt_ci.errors import LostRace, RepositoryError
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import deleted, worktrees

#: git holds the lock of a ref only for an instant, or while a hook runs. A lock of this age that no
#: running git here can own was left by a killed one.
STALE_SECONDS = 30.0

_PROC = Path("/proc")
#: Files besides the refs that git locks or writes when it moves or fetches refs.
_BESIDE_REFS = ("packed-refs.lock", "packed-refs.new", "shallow.lock", "reftable/tables.list.lock")
#: Long-running commands that lock no ref; other runs of ours keep the first three running.
_READERS = {
    "cat-file", "hash-object", "mktree", "diff", "fsmonitor--daemon", "grep", "log", "show",
}  # fmt: skip


@contextmanager
def run_lock(common_dir: Path, run: str) -> Iterator[None]:
    """Hold the run's lock, which dies with this process. Raises LostRace at once if it is taken."""
    file = common_dir / "skillopt-ci" / f"{run}.lock"
    try:
        file.parent.mkdir(exist_ok=True)
        held = FileLock(file).acquire(timeout=0)
    except Timeout as error:
        raise LostRace(
            f"another skillopt-ci is training run {run!r} in this repository",
            hint=f"Wait for it to end. It holds {file}",
        ) from error
    except OSError as error:
        raise RepositoryError(
            f"cannot write {file}: {error.strerror}",
            hint=f"Training needs write permission, free space and flock in {common_dir}.",
        ) from error
    with held:
        yield


def is_held(common_dir: Path, run: str) -> bool:
    """Whether the lock is held, as far as Linux can tell: trying it could fail another command."""
    try:
        inode = (common_dir / "skillopt-ci" / f"{run}.lock").stat().st_ino
        held = (_PROC / "locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    # `1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF`
    return any(f":{inode} " in line and " FLOCK " in line for line in held)


def clear_stale_locks(
    git: Git,
    common_dir: Path,
    names: Sequence[str],
    tell: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Remove locks that a killed git left on the refs ``names`` and on files shared by all refs.

    Hold the run's lock. Waits for young locks; RepositoryError if a running git keeps one.
    """
    files = [common_dir / name for name in (*(f"{ref}.lock" for ref in names), *_BESIDE_REFS)]
    files += [file for ref in names for file in (common_dir / deleted(ref)).glob("*.lock")]
    began, told = clock(), False
    while left := {file: seen for file in files if (seen := _written(file)) is not None}:
        worker = _git_at_work(git)
        for file, seen in left.items():
            age = abs(clock() - seen)  # absolute, in case the clock was set back
            if worker is None and age >= STALE_SECONDS and _written(file) == seen:
                try:
                    file.unlink(missing_ok=True)
                except OSError as error:
                    raise RepositoryError(
                        f"a killed git left {file}, and it cannot be removed: {error.strerror}",
                        hint="Remove it by hand.",
                    ) from error
                tell(f"Removed {file}, {age:.0f} s old, left by a killed git.")
        waiting = [file for file in left if _written(file) is not None]
        waited = clock() - began
        if waiting and waited >= 2 * STALE_SECONDS:
            raise RepositoryError(
                f"{worker or 'another git'} is at work and may hold {waiting[0]}",
                hint="Wait for it to end, or end it, then run again: that removes its lock.",
            )
        if waiting and waited >= 1 and not told:
            told = True
            until = f"{worker} may hold it" if worker else f"removed when {STALE_SECONDS:.0f} s old"
            tell(f"Waiting for {waiting[0]}: {until}.")
        if waiting:
            pause(0.25)


def _written(file: Path) -> float | None:
    try:
        return file.lstat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None


def _git_at_work(git: Git) -> str | None:
    """Name a git process in this repository that may lock refs, as far as Linux can tell."""
    places = [Path(facts["worktree"]).resolve() for facts in worktrees(git)]
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
