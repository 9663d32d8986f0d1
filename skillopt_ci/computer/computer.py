"""The contract: what a computer is asked for, what it does, and what a command in it comes to."""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from skillopt_ci.errors import InfrastructureError, SkilloptError, UsageError

#: The agent's folder inside, writable. All relative paths start here.
WORKDIR = "/workspace"

#: The agent's home inside, writable and empty.
HOME = "/home/agent"


class Network(StrEnum):
    """What a computer can reach."""

    NONE = "none"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class ComputerSpec:
    """What a task asks for. Every limit is applied, or the computer refuses to start.

    ``environ`` is set inside; nothing of our own environment is inherited. ``readable`` are
    folders and files of this machine that are mounted read-only at the same path.
    """

    network: Network = Network.NONE
    #: Docker only.
    image: str = ""
    memory_mb: int = 1024
    cpus: float = 1.0
    processes: int = 256
    disk_mb: int = 1024
    environ: Mapping[str, str] = field(default_factory=dict)
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended, and what it wrote: UTF-8, with replacement of what is not.

    ``exit_code`` is 128+n for a command that signal n killed, 127 for a program that does not
    exist, 126 for one that cannot be started. Of a longer output than was asked for, beginning and
    end are kept (``truncated``), with a line between that says how much is missing. ``limit`` names
    the limit that ended the command, where the computer knows it: "memory", "disk", "processes".
    """

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    truncated: bool = False
    limit: str = ""
    seconds: float = 0.0


class Computer(Protocol):
    """One place to work in. Paths are absolute, or relative to WORKDIR.

    Every method raises :class:`ComputerFailure` if the computer itself fails.
    """

    async def run(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        cwd: str = WORKDIR,
        environ: Mapping[str, str] = {},
        output_bytes: int = 64_000,
    ) -> CommandResult:
        """Run ``command``: arguments, never a shell line.

        All that it started is killed with it: after ``timeout`` seconds, on cancellation, and
        when it ends by itself. Nothing works on in the background.
        """
        ...

    async def read(self, path: str, *, max_bytes: int = 1_000_000) -> bytes:
        """Return a file's content. Raises :class:`FileRefused`."""
        ...

    async def write(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """Write a file as a whole, with the folders above it. Raises :class:`FileRefused`."""
        ...

    async def export(self, paths: Sequence[str], *, max_bytes: int) -> bytes:
        """Return files and folders of WORKDIR as an uncompressed tar, the same for the same files.

        ``paths`` are relative; ``*``, ``?``, ``[…]`` and ``**`` are globs, and one that matches
        nothing adds nothing. Of what is found, regular files, folders and symbolic links that
        stay inside are taken. ``max_bytes`` limits their content. Raises :class:`FileRefused`.
        """
        ...

    async def load(self, archive: bytes) -> None:
        """Unpack a tar in WORKDIR.

        Raises :class:`FileRefused`, before anything is written, for members that lead outside
        and those that are no files, folders or symbolic links.
        """
        ...


class Computers(Protocol):
    """A kind of computer."""

    @property
    def name(self) -> str:
        """Return the kind's name in the configuration."""
        ...

    @property
    def caveat(self) -> str:
        """Return what this kind does not guarantee here, as a sentence for reports, or nothing.

        It is settled once :meth:`check` has returned.
        """
        ...

    def check(self) -> None:
        """Find out whether computers of this kind can be had and do confine.

        Called before anything is paid for, and not in an event loop. Raises
        :class:`ComputerUnavailable`, which says what to install or to do.
        """
        ...

    def open(self, spec: ComputerSpec) -> AbstractAsyncContextManager[Computer]:
        """Start a computer; nothing of it is left at the end.

        Entering raises :class:`ComputerFailure` where starting failed, and
        :class:`ComputerUnavailable` where a limit that is asked for cannot be applied.
        """
        ...


# What can go wrong with a computer.


class ComputerUnavailable(UsageError):
    """This kind of computer, or a limit that was asked for, cannot be had on this machine."""


class ComputerFailure(InfrastructureError):
    """The computer itself failed: nothing that was run in it is to blame, a new one may work."""


class FileRefused(SkilloptError):
    """A path is not there, is no plain file, is outside or too large: the caller's business."""


# Who a computer belongs to: a process of this machine, told apart from all later ones.

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


# Files that are nowhere: content in memory, to be handed to a program as a descriptor.

_SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL


@contextmanager
def sealed_file(content: bytes) -> Iterator[int]:
    """Yield a descriptor to read ``content`` from, which nobody can change."""
    descriptor = os.memfd_create("skillopt-ci", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        yield descriptor
    finally:
        os.close(descriptor)


# A stream of bytes, of which only beginning and end are kept.


@dataclass(slots=True)
class Capture:
    """Takes any number of bytes and holds about ``limit`` of them: the first and the last half."""

    limit: int
    total: int = 0
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(chunk)
        room = (self.limit + 1) // 2 - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit + 65_536:
            self._trim()

    @property
    def truncated(self) -> bool:
        """Whether something is missing."""
        return self.total > self.limit

    def content(self) -> bytes:
        """Return what is kept, without a mark where something is missing."""
        self._trim()
        return bytes(self._head + self._tail)

    def text(self) -> str:
        """Return what is kept as text, with a line in place of what is missing."""
        self._trim()
        if not self.truncated:
            return (self._head + self._tail).decode("utf-8", errors="replace")
        head, tail = (part.decode("utf-8", errors="replace") for part in (self._head, self._tail))
        return f"{head}\n[… {self.total - self.limit} bytes left out …]\n{tail}"

    @property
    def _tail_limit(self) -> int:
        return self.limit // 2

    def _trim(self) -> None:
        surplus = len(self._tail) - self._tail_limit
        if surplus > 0:
            del self._tail[:surplus]
