"""One training process per run and repository."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from skillopt_ci.errors import LostRace


@contextmanager
def run_lock(common_dir: Path, run: str) -> Iterator[None]:
    """Hold the lock of ``run``; the kernel lets go of it when the process dies.

    Raises LostRace at once if another process (in any worktree of the repository) holds it.
    """
    folder = common_dir / "skillopt-ci"
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / f"{run}.lock")
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
