"""Everything that a running program has started, in whatever process group or session."""

import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")


def kill_tree(root: int) -> None:
    """Kill the process ``root``, its group, and all that descends from it.

    Agents start their commands in sessions of their own, which a signal to the group misses. All
    are stopped first, so that none of them can start another meanwhile. Without ``/proc`` only the
    group is killed.
    """
    _signal_group(root, signal.SIGSTOP)
    found: set[int] = set()
    while fresh := descendants(root) - found:
        for process in fresh:
            _signal(process, signal.SIGSTOP)
        found |= fresh
    for process in found:
        _signal(process, signal.SIGKILL)
    _signal_group(root, signal.SIGKILL)


def kill_marked(name: str, value: str) -> None:
    """Kill every process that was started with the variable ``name`` set to ``value``.

    These are what outlived those that started them. Without ``/proc`` none is found.
    """
    mark = f"{name}={value}".encode()
    for entry in _processes():
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                _signal(int(entry.name), signal.SIGKILL)


def descendants(root: int) -> set[int]:
    """Return the processes that descend from ``root`` at this moment."""
    children = defaultdict(list)
    for process, parent in _parents():
        children[parent].append(process)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        fresh = [child for child in children[waiting.pop()] if child not in found]
        found.update(fresh)
        waiting += fresh
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for entry in _processes():
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The program's name stands in parentheses and may itself hold any character.
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            yield int(entry.name), int(fields[1])


def _processes() -> list[Path]:
    found = _PROCESSES.iterdir() if _PROCESSES.is_dir() else ()
    return [entry for entry in found if entry.name.isdigit()]


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
