"""A program of this machine: fed, listened to within bounds, and killed with all it started."""

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt_ci.aio import shielded
from skillopt_ci.computer.computer import Capture, sealed_file

# Everything that a running program has started, in whatever process group or session.

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


#: Seconds for which output is awaited that somebody who escaped the kill may hold open.
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True)
class Execution:
    """How a program ended: its status (negative: the signal that killed it) and its output."""

    status: int
    stdout: Capture
    stderr: Capture
    timed_out: bool
    seconds: float


async def execute(
    arguments: Sequence[str],
    *,
    stdin: bytes,
    environ: Mapping[str, str],
    cwd: Path,
    timeout: float,
    output_bytes: int,
    pass_fds: Sequence[int] = (),
    clock: Callable[[], float] = time.monotonic,
) -> Execution:
    """Run ``arguments`` to their end or for ``timeout`` seconds; then kill all it started.

    Raises OSError or ValueError if the program cannot be started.
    """
    begin = clock()
    outputs = Capture(output_bytes), Capture(output_bytes)
    with sealed_file(stdin) as source:
        async with _listening(outputs[0]) as stdout, _listening(outputs[1]) as stderr:
            try:
                process = await started(
                    asyncio.create_subprocess_exec(
                        *arguments,
                        stdin=source,
                        stdout=stdout,
                        stderr=stderr,
                        env=dict(environ),
                        cwd=cwd,
                        pass_fds=pass_fds,
                        start_new_session=True,
                    )
                )
            finally:
                os.close(stdout)
                os.close(stderr)
            timed_out = await _outlives(process, timeout)
    return Execution(process.returncode or 0, *outputs, timed_out, round(clock() - begin, 3))


async def started(starting: Coroutine[Any, Any, Process]) -> Process:
    """Wait for the start of a leader of a process group, and kill the group if cancelled.

    Left to itself asyncio would kill the first process alone, and could wait for pipes for ever
    that it had not yet opened.
    """
    start = asyncio.ensure_future(starting)
    try:
        return await shielded(start)
    except asyncio.CancelledError:
        await _end(start.result())
        raise


async def _outlives(process: Process, timeout: float) -> bool:
    """Wait for the end, or bring it about; tell which."""
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
    except TimeoutError:
        return True
    finally:
        await _end(process)
    return False


async def _end(process: Process) -> None:
    """Kill a program with all it started; after a normal end, what it has left of its group."""
    if process.returncode is None:
        kill_tree(process.pid)
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await shielded(process.wait())


@asynccontextmanager
async def _listening(output: Capture) -> AsyncIterator[int]:
    """Yield the end of a pipe to write to; the block's end waits for the writers to close it.

    The pipe is ours and not asyncio's, which may not see a program's end before all that it
    started has closed its output.
    """
    source, sink = os.pipe()
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", buffering=0)
    )
    listener = asyncio.create_task(_listen(reader, output))
    try:
        yield sink
        await asyncio.wait([listener], timeout=_PATIENCE)
    finally:
        listener.cancel()
        transport.close()


async def _listen(stream: asyncio.StreamReader, output: Capture) -> None:
    while chunk := await stream.read(65_536):
        output.feed(chunk)
