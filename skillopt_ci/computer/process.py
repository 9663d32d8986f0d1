"""A program of this machine: fed, listened to within bounds, and killed with all it started."""

import asyncio
import contextlib
import os
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt_ci.aio import undisturbed
from skillopt_ci.computer.capture import Capture
from skillopt_ci.computer.descendants import kill_tree
from skillopt_ci.computer.sealed_file import sealed_file

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
        return await undisturbed(start)
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
    await undisturbed(process.wait())


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
