"""Who a computer belongs to: a process of this machine, told apart from all later ones."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_SHAPE = re.compile(r"([0-9a-f]{12})-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Owner:
    """A process: where its number is valid (boot and PID namespace), its number, its start."""

    place: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.place}-{self.pid}-{self.started}"


def this_process() -> Owner:
    """Return the process that asks."""
    pid = os.getpid()
    return Owner(_place(), pid, _started(pid) or 0)


def parse(text: str) -> Owner | None:
    """Return the owner that ``text`` names, None if it names none."""
    match = _SHAPE.fullmatch(text)
    return Owner(match[1], int(match[2]), int(match[3])) if match else None


def is_gone(owner: Owner) -> bool:
    """Tell whether the owner has certainly ended: False for one of another machine or namespace."""
    return owner.place == _place() and _started(owner.pid) != owner.started


def _place() -> str:
    boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    namespace = (_PROC / "self/ns/pid").readlink().name.strip("pid:[]")
    return f"{int(boot[:12], 16) ^ int(namespace):012x}"[-12:]


def _started(pid: int) -> int | None:
    """Return when a process began, in ticks since boot; None if it has ended."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])
