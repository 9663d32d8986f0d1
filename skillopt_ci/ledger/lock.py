"""One training process per run and repository."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from skillopt_ci.errors import LostRace

_LOCKS = Path("/proc/locks")


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
