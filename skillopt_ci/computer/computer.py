"""A computer: runs commands in isolation; its files are reached only by commands inside it.

File operations run with the agent's own rights, so its links never lead to files of the host.
"""

import os
import posixpath
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from skillopt_ci.computer.archive import Member, pack, selected, unpack, with_parents
from skillopt_ci.errors import ComputerFailure, ComputerUnavailable, FileRefused
from skillopt_ci.liveness import scratch_folder
from skillopt_ci.program import Capture, CommandResult

#: The agent's writable folder. Relative paths start here.
WORKDIR = "/workspace"
#: The agent's home, writable and initially empty.
HOME = "/home/agent"
#: Where a Linux system usually has its programs.
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: Seconds that reading or writing a file may take.
_PATIENCE = 120.0
#: Most bytes of names, and most names, that go on one command line; bubblewrap accepts 9000.
_LINE_BYTES, _LINE_NAMES = 60_000, 8_000
#: Linux's limit for one argument, and a safe limit for all of them.
_ARGUMENT_BYTES, _ARGUMENTS_BYTES = 131_000, 1_000_000
_LISTING_BYTES = 20_000_000
#: Overhead in a tar: of a file (header and padding), and of the end.
_MEMBER_BYTES, _END_BYTES = 2048, 20_480

#: Changes to the folder and becomes the command; a failed start has the exit code of a shell.
START = 'cd -- "$1" || exit 126; shift; exec "$@"'

_REASONS = {
    71: "there is no such file",
    72: "it is not a regular file",
    73: "there is a folder of that name",
    74: "it cannot be written",
}
_READ = '[ -e "$1" ] || exit 71; [ -f "$1" ] || exit 72; exec head -c "$2" -- "$1"'
_WRITE = """\
[ ! -d "$1" ] || exit 73
mkdir -p -- "$2" || exit 74
[ ! -x "$1" ] || set -- "$1" "$2" 755 "$4"
trap 'rm -f -- "$4"' EXIT
cat > "$4" && chmod "$3" "$4" && mv -f -- "$4" "$1" || exit 74
"""
#: Status 1: the agent left a folder that it cannot read.
_LIST = """\
type find tar > /dev/null 2>&1 || exit 127
find . -mindepth 1 '(' -type f -o -type d -o -type l ')' -print0; [ $? -le 1 ]
"""
_PACK = 'limit=$1; shift; tar -cf - --no-recursion -- "$@" | head -c "$limit"'
_UNPACK = "exec tar -xmf -"


@dataclass(frozen=True, slots=True)
class ComputerSpec:
    """A task's requirements. Every limit is enforced, or the computer does not start.

    ``environ`` is set inside; nothing of our own environment is inherited. ``readable`` are
    folders and files of the host, mounted read-only at the same path. ``image`` is for Docker only.
    """

    network: Literal["none", "open"] = "none"
    image: str = ""
    memory_mb: int = 1024
    cpus: float = 1.0
    processes: int = 256
    disk_mb: int = 1024
    environ: Mapping[str, str] = field(default_factory=dict)
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run inside; ``cwd`` is absolute."""

    arguments: Sequence[str]
    timeout: float
    stdin: bytes = b""
    cwd: str = WORKDIR
    environ: Mapping[str, str] = field(default_factory=dict)
    output_bytes: int = 64_000


#: Runs a command inside; the only difference between kinds of computers. Raises ComputerFailure.
Shell = Callable[[Command], Awaitable[CommandResult]]


@dataclass(frozen=True, slots=True)
class Computer:
    """An open computer; ``locate`` maps a path to its real place. Raises ComputerFailure."""

    shell: Shell
    locate: Callable[[str], str] = str

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
        """Run arguments, without a shell; every process they started is killed at the end."""
        reason = _unspeakable((*command, cwd, *environ, *environ.values()))
        if reason or not command:
            return CommandResult(126, Capture.of(""), Capture.of(reason or "there is no command"))
        folder = self.locate(posixpath.join(WORKDIR, cwd))
        return await self.shell(
            Command(tuple(command), timeout, stdin, folder, environ, output_bytes)
        )

    async def read(self, path: str, *, max_bytes: int = 1_000_000) -> bytes:
        script = (_READ, self._file(path), str(max_bytes + 1))
        done = await self._perform(path, script, output_bytes=max_bytes)
        return _complete(done.out, path, max_bytes)

    async def write(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """Write a file atomically; an executable one stays so. Raises :class:`FileRefused`."""
        file = self._file(path)
        mode = "755" if executable else "644"
        script = (_WRITE, file, posixpath.dirname(file), mode, f"{file}.{secrets.token_hex(8)}")
        await self._perform(path, script, stdin=content)

    async def export(self, paths: Sequence[str], *, max_bytes: int) -> bytes:
        """Return files and folders of WORKDIR as a reproducible, uncompressed tar.

        ``paths`` are relative and may be globs (``*``, ``?``, ``[…]``, ``**``), which need not
        match. The tar has regular files, folders and symbolic links that stay inside. ``max_bytes``
        limits their content. Raises :class:`FileRefused`.
        """
        listing = await self._perform(WORKDIR, (_LIST,), output_bytes=_LISTING_BYTES)
        names = _complete(listing.out, WORKDIR, _LISTING_BYTES).split(b"\0")
        found = [name.decode("utf-8", "surrogateescape").removeprefix("./") for name in names[:-1]]
        members, left = list[Member](), max_bytes
        for portion in _portions(selected(found, paths)):
            limit = left + _MEMBER_BYTES * len(portion) + _END_BYTES
            # One byte more distinguishes a tar that is too large from one that just fits.
            script = (_PACK, str(limit + 1), *portion)
            packed = await self._perform(WORKDIR, script, output_bytes=limit)
            fresh = unpack(_complete(packed.out, "the task's `artifacts`", max_bytes))
            members += fresh
            left -= sum(len(member.content) for member in fresh)
            if left < 0:
                raise FileRefused(f"the task's `artifacts`: more than {max_bytes} bytes.")
        return pack(members)

    async def load(self, archive: bytes) -> None:
        """Unpack a tar in WORKDIR. For unsafe members raises FileRefused and writes nothing."""
        members = with_parents(unpack(archive, strict=True))
        await self._perform(WORKDIR, (_UNPACK,), stdin=pack(members))

    def _file(self, path: str) -> str:
        if not path or path.endswith("/") or _unspeakable((path,)):
            raise FileRefused(f"{path!r} is not the name of a file.")
        return self.locate(posixpath.join(WORKDIR, path))

    async def _perform(
        self, path: str, script: Sequence[str], *, stdin: bytes = b"", output_bytes: int = 4096
    ) -> CommandResult:
        text, *arguments = script
        # the task's PATH may lack our programs
        command = ("/bin/sh", "-c", f"PATH=$PATH:/usr/bin:/bin\n{text}", "sh", *arguments)
        done = await self.shell(
            Command(command, _PATIENCE, stdin, self.locate(WORKDIR), {}, output_bytes)
        )
        if done.timed_out:
            raise ComputerFailure(f"{path}: the computer did not answer in {_PATIENCE:g} s.")
        if done.exit_code == 127:  # noqa: PLR2004 - a program is missing, and agents cannot remove any
            raise ComputerFailure("The computer lacks `find`, `tar` or a program of coreutils.")
        if done.exit_code:
            reason = _REASONS.get(done.exit_code) or done.stderr.strip()
            full = " The disk is full." if done.limit == "disk" else ""
            raise FileRefused(f"{path}: {reason or 'it cannot be reached'}.{full}")
        return done


class Computers(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def caveat(self) -> str:
        """A sentence about what this kind does not guarantee here; set by :meth:`check`."""

    def check(self) -> None:
        """Raise ComputerUnavailable, with a hint, if these computers do not work here."""

    def open(self, spec: ComputerSpec) -> AbstractAsyncContextManager[Computer]:
        """Start a computer, and remove it completely at the end. Also raises ComputerFailure."""


_PROBE = ComputerSpec(memory_mb=256, processes=32, disk_mb=32)
#: The loopback device, and unconnected tunnels that the kernel creates in new network namespaces.
_HARMLESS = "lo sit0 tunl0 ip6tnl0 gre0 gretap0 erspan0 ip_vti0 ip6_vti0 ip6gre0"


async def probe(computers: Computers) -> None:
    """Open a computer and test its isolation. Raises ComputerUnavailable if something leaks."""
    with scratch_folder("probe") as folder:
        Path(folder).chmod(0o755)  # nothing but the isolation keeps it from being read
        outside = Path(folder, "outside")
        outside.write_bytes(b"probe")
        outside.chmod(0o644)
        async with computers.open(_PROBE) as computer:
            if complaint := await _complaint(computer, str(outside)):
                raise ComputerUnavailable(
                    f"The computer fails its check: {complaint}.",
                    hint="Choose another `rollout.computer.type` on this machine.",
                )


async def _complaint(computer: Computer, outside: str) -> str:
    await computer.write("probe", b"probe")
    if unpack(await computer.export(["**"], max_bytes=100)) != [Member("probe", b"probe")]:
        return "a file could not be used"
    done = await computer.run(["cat", outside], timeout=30)
    if not done.exit_code:
        return f"{outside} can be read from inside"
    # Reading the table of network devices needs only `cat` in the image.
    done = await computer.run(["cat", "/proc/net/dev"], timeout=30)
    devices = [line.split(":")[0].strip() for line in done.stdout.splitlines()[2:]]
    if "lo" not in devices and done.exit_code:
        return "its network devices cannot be seen"
    others = ", ".join(name for name in devices if name not in _HARMLESS.split())
    return f"the network device {others} is inside" if others else ""


def _unspeakable(words: Sequence[str]) -> str:
    """Why these words, perhaps a model's, cannot be arguments of a program; empty if they can."""
    if any("\0" in word for word in words):
        return "an argument has a zero byte"
    try:
        sizes = [len(os.fsencode(word)) for word in words]
    except UnicodeEncodeError:
        return "an argument cannot be encoded as text"
    long = max(sizes) > _ARGUMENT_BYTES or sum(sizes) > _ARGUMENTS_BYTES
    return "the arguments are too long" if long else ""


def _complete(output: Capture, path: str, max_bytes: int) -> bytes:
    if output.truncated:
        raise FileRefused(f"{path}: more than {max_bytes} bytes.")
    return output.content()


def _portions(names: Sequence[str]) -> list[list[str]]:
    portions: list[list[str]] = []
    size = _LINE_BYTES
    for name in names:
        size += len(name.encode("utf-8", "surrogateescape")) + 1
        if size > _LINE_BYTES or len(portions[-1]) >= _LINE_NAMES:
            portions.append([])
            size = 0
        portions[-1].append(name)
    return portions
