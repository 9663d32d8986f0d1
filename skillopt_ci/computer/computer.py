"""The contract: what a computer is asked for, what it does, and what a command in it comes to."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

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
