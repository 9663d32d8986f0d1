"""Run programs on this machine within limits, and kill them with everything they started."""

import asyncio
import fcntl
import os
import signal
import sys
import time
from asyncio.subprocess import Process
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from skillopt_ci.aio import shielded
from skillopt_ci.confinement import current
from skillopt_ci.errors import ComputerFailure
from skillopt_ci.liveness import PROC, stat_of

#: Environment variables that every program may see.
ALWAYS_VISIBLE = ("PATH", "HOME", "LANG")
#: Seconds to wait for output: a process that escaped the kill may still hold the pipe open.
_PATIENCE = 2.0


@dataclass(slots=True)
class Capture:
    """Takes any number of bytes and keeps ``limit``, half from the start and half from the end."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    @classmethod
    def of(cls, text: str, limit: int | None = None) -> "Capture":
        content = text.encode("utf-8", "replace")
        capture = cls(len(content) if limit is None else limit)
        capture.feed(content)
        return capture

    def feed(self, chunk: bytes) -> None:
        self.total += len(chunk)
        if (room := (self.limit + 1) // 2 - len(self._head)) > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > self.limit + 65_536:
            self._trim()

    @property
    def truncated(self) -> bool:
        return self.total > self.limit

    def content(self) -> bytes:
        self._trim()
        return bytes(self._head + self._tail)

    def tail(self, size: int) -> str:
        return self.content()[-size:].decode("utf-8", errors="replace")

    def text(self) -> str:
        """The bytes kept, invalid UTF-8 replaced, with a line in place of those left out."""
        if not self.truncated:
            return self.content().decode("utf-8", errors="replace")
        self._trim()
        head, tail = (part.decode("utf-8", errors="replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self.total - self.limit} bytes left out …]\n{tail}"

    def _trim(self) -> None:
        if (surplus := len(self._tail) - self.limit // 2) > 0:
            del self._tail[:surplus]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended and what it wrote.

    ``exit_code`` is 128+n if signal n killed the command, 127 if the program does not exist, 126 if
    it cannot be started. ``limit`` names the limit that ended the command, if the computer knows
    it: "memory", "disk", "processes". ``signal`` killed it, if that differs from an exit status.
    """

    exit_code: int
    out: Capture
    err: Capture
    timed_out: bool = False
    limit: str = ""
    seconds: float = 0.0
    signal: int = 0

    @property
    def stdout(self) -> str:
        return self.out.text()

    @property
    def stderr(self) -> str:
        return self.err.text()


async def execute(
    arguments: Sequence[str],
    *,
    stdin: bytes,
    environ: Mapping[str, str],
    cwd: Path,
    timeout: float,
    output_bytes: int,
    pass_fds: Sequence[int] = (),
) -> CommandResult:
    """Run for at most ``timeout`` seconds, then kill all it started. Raises ComputerFailure."""
    begin, timed_out = time.monotonic(), False
    stdout, stderr = Capture(output_bytes), Capture(output_bytes)
    with sealed_file(stdin) as source:
        async with _captured(stdout) as stdout_fd, _captured(stderr) as stderr_fd:
            try:
                process = await started(
                    asyncio.create_subprocess_exec(
                        *arguments,
                        stdin=source,
                        stdout=stdout_fd,
                        stderr=stderr_fd,
                        env=dict(environ),
                        cwd=cwd,
                        pass_fds=pass_fds,
                        start_new_session=True,
                    )
                )
            except (OSError, ValueError) as error:
                raise ComputerFailure(f"A command could not be started: {error}.") from error
            finally:
                os.close(stdout_fd)
                os.close(stderr_fd)
            try:
                async with asyncio.timeout(timeout):
                    await process.wait()
            except TimeoutError:
                timed_out = True
            finally:
                await _end(process)
    status, seconds = process.returncode or 0, round(time.monotonic() - begin, 3)
    number = max(0, -status)
    exit_code = 128 + number if number else status
    return CommandResult(exit_code, stdout, stderr, timed_out, seconds=seconds, signal=number)


async def run_program(
    arguments: Sequence[str],
    *,
    stdin: bytes,
    work: Path,
    cwd: Path,
    environ: Mapping[str, str],
    timeout: float,
    output_bytes: int,
    keeps_home: bool = False,
) -> CommandResult:
    """Run ``arguments`` confined, with write access only to ``work``. Raises TimeoutError."""
    cell = await asyncio.to_thread(lambda: current().cell(work))
    command, variables = cell.command(
        arguments, environ, cwd, needs=arguments, keeps_home=keeps_home
    )
    done = await execute(
        command, stdin=stdin, environ=variables, cwd=cwd, timeout=timeout, output_bytes=output_bytes
    )
    if done.timed_out:
        raise TimeoutError
    return replace(done, signal=done.signal or cell.signal(done.exit_code))


def visible_environ(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables that a program may see: a few basic ones and ``names``."""
    return {name: environ[name] for name in (*ALWAYS_VISIBLE, *names) if name in environ}


def signal_name(number: int) -> str:
    return signal.Signals(number).name if number in [*signal.Signals] else f"signal {number}"


async def started(starting: Coroutine[Any, Any, Process]) -> Process:
    """Wait for a group leader to start; if cancelled, kill its group (asyncio kills only one)."""
    start = asyncio.ensure_future(starting)
    try:
        return await shielded(start)
    except asyncio.CancelledError:
        await _end(start.result())
        raise


async def _end(process: Process) -> None:
    """Kill a program with everything it started, or if it has ended, the rest of its group."""
    if process.returncode is None:
        kill_tree(process.pid)
    else:
        kill(-process.pid)
    # not `wait`: since Python 3.13 it returns while pipes are still open
    await shielded(process.communicate())


@asynccontextmanager
async def _captured(output: Capture) -> AsyncIterator[int]:
    """Yield a pipe's writing end; asyncio's own may see a program end only with its children."""
    source, sink = os.pipe()
    async with pipe_reader(source) as reader:

        async def listen() -> None:
            while chunk := await reader.read(65_536):
                output.feed(chunk)

        listener = asyncio.create_task(listen())
        try:
            yield sink
            await asyncio.wait([listener], timeout=_PATIENCE)
        finally:
            listener.cancel()


@asynccontextmanager
async def pipe_reader(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    """Read from ``descriptor`` and close it at the end."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        yield reader
    finally:
        transport.close()


@contextmanager
def sealed_file(content: bytes) -> Iterator[int]:
    """Yield the descriptor of an unnamed file, which on Linux cannot be changed."""
    linux = sys.platform == "linux"
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING if linux else 0
    with os.fdopen(os.memfd_create("stdin", flags), "w+b") if linux else TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        if linux:
            seals = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        yield file.fileno()


def kill_tree(root: int) -> None:
    """Kill ``root``, its group and its descendants, stopping all first so that none starts more."""
    found: set[int] = set()
    try:
        kill(-root, signal.SIGSTOP)
        while fresh := _descendants(root) - found:
            found |= fresh
            for process in fresh:
                kill(process, signal.SIGSTOP)
    finally:  # a second Ctrl-C must not leave stopped processes behind
        for process in found:
            kill(process)
        kill(-root)


def kill_marked(name: str, value: str) -> None:
    """Kill processes started with ``name=value`` in their environment, even orphaned ones."""
    for entry in _processes():
        with suppress(OSError):
            if f"{name}={value}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                kill(int(entry.name))


def _descendants(root: int) -> set[int]:
    children = defaultdict(list)
    for entry in _processes():
        with suppress(OSError, ValueError, IndexError):
            children[int(stat_of(entry)[1])].append(int(entry.name))
    found: set[int] = set()
    waiting = [root]
    while waiting:
        fresh = [child for child in children[waiting.pop()] if child not in found]
        found.update(fresh)
        waiting += fresh
    return found


def _processes() -> list[Path]:
    return list(PROC.glob("[0-9]*"))  # empty where there is no such folder


def kill(process: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process, or to the group ``-process``, if it still exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
