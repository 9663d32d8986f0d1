"""Which processes still live, and temporary folders that do not outlive theirs for long."""

import os
import re
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

PROC = Path("/proc")
_IDENTITY = re.compile(r"([0-9a-f]{12})-(\d+)-(\d+)")
_SCRATCH = "skillopt-ci-"


def this_process() -> str:
    """A name for this process that no later one on this machine and in this namespace gets."""
    return f"{_namespace()}-{os.getpid()}-{_started(os.getpid())}"


def is_gone(name: str) -> bool:
    """Whether the process with this :func:`this_process` name has certainly ended."""
    match = _IDENTITY.fullmatch(name)
    if match is None or match[1] != _namespace():
        return False
    return _started(int(match[2])) != int(match[3])


class Scratch(TemporaryDirectory[str]):
    """A temporary folder that can be removed however deep programs nest folders in it."""

    def cleanup(self) -> None:
        # very deep folders take too many calls, or since Python 3.13 too many open files
        with suppress(RecursionError):
            super().cleanup()
        if Path(self.name).exists():
            _remove(self.name)


def scratch_folder(kind: str) -> Scratch:
    """A temporary folder; if this process is killed, the next one that needs some removes it."""
    _sweep(gettempdir())
    owner = ""
    with suppress(OSError):  # without /proc, nobody can tell that it is left over
        owner = f"{this_process()}_"
    return Scratch(prefix=f"{_SCRATCH}{owner}{kind}-", ignore_cleanup_errors=True)


@cache
def _sweep(folder: str) -> None:
    """Remove the scratch folders of processes that have ended; done once."""
    for left in Path(folder).glob(f"{_SCRATCH}*_*"):
        if is_gone(left.name.removeprefix(_SCRATCH).partition("_")[0]):
            _remove(left)


def _remove(folder: str | Path) -> None:
    with suppress(OSError):  # where there is no `rm`, it stays
        subprocess.run(("rm", "-rf", "--", folder), check=False, capture_output=True)  # noqa: S603, S607


def _namespace() -> str:
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    namespace = (PROC / "self/ns/pid").readlink().name.strip("pid:[]")
    return f"{int(boot[:12], 16) ^ int(namespace):012x}"[-12:]


def _started(pid: int) -> int | None:
    try:
        state, *fields = stat_of(PROC / str(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else int(fields[18])


def stat_of(process: Path) -> list[str]:
    """State, parent and so on, see proc(5)."""
    # the program's name comes before them in parentheses and may contain any character
    return (process / "stat").read_bytes().rpartition(b")")[2].decode().split()
