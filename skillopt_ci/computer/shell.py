"""A computer whose every file operation is a command that runs inside it.

So a file is reached with the rights that the agent has and no more: whatever links the agent lays,
they lead to what it could read and write anyway, never to a file of the host.
"""

import io
import os
import posixpath
import re
import secrets
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol

from skillopt_ci.computer.computer import (
    WORKDIR,
    Capture,
    CommandResult,
    ComputerFailure,
    FileRefused,
)

# Tars that are taken apart with suspicion and put together the same way every time.


@dataclass(frozen=True, slots=True)
class Member:
    """A file, folder or symbolic link of an archive, under a path that stays inside."""

    name: str
    content: bytes = b""
    executable: bool = False
    folder: bool = False
    #: Where a symbolic link points to.
    target: str = ""


@dataclass(slots=True)
class Contents:
    """Members that come in portions, up to ``max_bytes`` of content."""

    max_bytes: int
    members: list[Member] = field(default_factory=list)
    size: int = 0

    @property
    def left(self) -> int:
        """How many bytes more may come."""
        return self.max_bytes - self.size

    def add(self, members: Iterable[Member]) -> None:
        """Take more members. Raises FileRefused if that is more than allowed."""
        for member in members:
            self.members.append(member)
            self.size += len(member.content)
        if self.size > self.max_bytes:
            raise FileRefused(f"the export: more than {self.max_bytes} bytes.")


def unpack(archive: bytes, *, strict: bool = False) -> list[Member]:
    """Return the members of a tar that are regular files, folders, or links that stay inside.

    What is anything else is left out, or refused with :class:`FileRefused` if ``strict``; so is a
    tar that cannot be read.
    """
    members: dict[str, Member] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for info in tar:
                member = _member(tar, info, members)
                if member is not None:
                    members[member.name] = member
                elif strict and posixpath.normpath(info.name) != ".":
                    raise FileRefused(
                        f"the archive has {info.name!r}, which is no file, folder or link inside."
                    )
    except (tarfile.TarError, EOFError, UnicodeError, ValueError, OverflowError) as error:
        raise FileRefused(f"the archive is no tar that can be read: {error}.") from error
    return _apart_from_links(members, strict=strict)


def with_parents(members: Iterable[Member]) -> list[Member]:
    """Add the folders that members are in: unpacked, they take the place of links laid there."""
    given = {member.name: member for member in members}
    above = {
        "/".join(parts[:length]): Member("/".join(parts[:length]), folder=True)
        for parts in (name.split("/") for name in given)
        for length in range(1, len(parts))
    }
    return list((above | given).values())


def pack(members: Iterable[Member]) -> bytes:
    """Return a tar that depends on nothing but the members: no times, no owners, sorted."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in sorted(members, key=lambda one: one.name):
            tar.addfile(_info(member), io.BytesIO(member.content))
    return file.getvalue()


def _member(
    tar: tarfile.TarFile, info: tarfile.TarInfo, before: dict[str, Member]
) -> Member | None:
    name = posixpath.normpath(info.name)
    if info.name.startswith("/") or name == "." or ".." in info.name.split("/"):
        return None
    if info.isdir():
        return Member(name, folder=True)
    if info.issym():
        return Member(name, target=info.linkname) if stays_inside(name, info.linkname) else None
    if info.islnk():
        # A hard link to a file that came before is that file once more.
        same = before.get(posixpath.normpath(info.linkname))
        return None if same is None or same.folder or same.target else replace(same, name=name)
    stream = tar.extractfile(info) if info.isreg() else None
    return None if stream is None else Member(name, stream.read(), bool(info.mode & 0o100))


def stays_inside(name: str, target: str) -> bool:
    """Tell whether a symbolic link can only ever lead to what is inside as well.

    ``..`` counts at the beginning of the target only, where it goes up through folders that are
    real; further on it could go up from wherever another link leads to.
    """
    parts = target.split("/")
    ascents = 0
    while ascents < len(parts) and parts[ascents] == "..":
        ascents += 1
    return (
        bool(target)
        and not target.startswith("/")
        and ".." not in parts[ascents:]
        and ascents <= name.count("/")
    )


def _apart_from_links(members: dict[str, Member], *, strict: bool) -> list[Member]:
    """Leave out, or refuse, what would be written through a link or a file."""
    kept = []
    for member in members.values():
        above = member.name.split("/")[:-1]
        parents = ["/".join(above[:length]) for length in range(1, len(above) + 1)]
        blocked = [name for name in parents if name in members and not members[name].folder]
        if blocked and strict:
            raise FileRefused(f"the archive has {member.name!r} below {blocked[0]!r}, no folder.")
        if not blocked:
            kept.append(member)
    return kept


def _info(member: Member) -> tarfile.TarInfo:
    info = tarfile.TarInfo(member.name)
    info.mode = 0o755 if member.executable or member.folder else 0o644
    info.type = tarfile.REGTYPE
    if member.folder:
        info.type = tarfile.DIRTYPE
    elif member.target:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, member.target, 0o777
    info.size = len(member.content)
    return info


# Which of the files of a folder a list of names and globs means.

_TOKEN = re.compile(r"(\*\*/)|(\*\*)|(\*)|(\?)|(\[!?\]?[^]/]*\])|(.)", re.DOTALL)


def selected(files: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return those of ``files`` (relative paths) that ``patterns`` name, sorted.

    ``*`` and ``?`` match within a path's part, ``**`` over any number of parts, ``[ab]`` and
    ``[!ab]`` one character. A folder means all that is in it. Raises FileRefused for a pattern
    that leads outside.
    """
    wanted = [_compiled(pattern) for pattern in patterns]
    return sorted(
        file
        for file in files
        if any(regex.fullmatch(above) for above in _with_parents(file) for regex in wanted)
    )


def _with_parents(file: str) -> list[str]:
    parts = file.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    if pattern.startswith("/") or ".." in parts:
        raise FileRefused(f"{pattern}: only paths inside the agent's folder can be exported.")
    name = "/".join(parts) or "**"
    return re.compile("".join(_translated(match) for match in _TOKEN.finditer(name)), re.DOTALL)


def _translated(match: re.Match[str]) -> str:
    folders, anything, part, character, one_of, literal = match.groups()
    if folders:
        return "(?:[^/]+/)*"
    if anything:
        return ".*"
    if part or character:
        return "[^/]*" if part else "[^/]"
    if one_of:
        negated = one_of.startswith("[!")
        inner = one_of[2 if negated else 1 : -1]
        inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner)
        return f"[{'^/' if negated else ''}{inside}]"
    return re.escape(literal)


#: Seconds that reading or writing a file may take.
_PATIENCE = 120.0
#: Most bytes of names that go on one command line.
_LINE_BYTES = 60_000
#: What Linux takes of one argument, and what it takes of all with room to spare.
_ARGUMENT_BYTES, _ARGUMENTS_BYTES = 131_000, 1_000_000
_LISTING_BYTES = 20_000_000
#: What a file takes in a tar beside its content: header and padding; and the tar's end.
_MEMBER_BYTES, _END_BYTES = 2048, 20_480

#: Sets out for the folder and becomes the command, with a shell's codes for what cannot be begun.
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
trap 'rm -f -- "$4"' EXIT
cat > "$4" && chmod "$3" "$4" && mv -f -- "$4" "$1" || exit 74
"""
_LIST = "exec find . -mindepth 1 '(' -type f -o -type d -o -type l ')' -print0"
_PACK = 'limit=$1; shift; tar -cf - --no-recursion -- "$@" | head -c "$limit"'
_UNPACK = "exec tar -xmf -"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command inside ended: like :class:`CommandResult`, with its output as bytes."""

    exit_code: int
    stdout: Capture
    stderr: Capture
    timed_out: bool = False
    limit: str = ""
    seconds: float = 0.0

    def result(self) -> CommandResult:
        """Return what callers see of it."""
        return CommandResult(
            self.exit_code,
            self.stdout.text(),
            self.stderr.text(),
            self.timed_out,
            self.stdout.truncated or self.stderr.truncated,
            self.limit,
            self.seconds,
        )


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is to run inside."""

    arguments: Sequence[str]
    timeout: float
    stdin: bytes = b""
    cwd: str = WORKDIR
    environ: Mapping[str, str] = field(default_factory=dict)
    output_bytes: int = 64_000


class Shell(Protocol):
    """What differs between kinds of computers."""

    async def __call__(self, command: Command) -> Ended:
        """Run a command; raises ComputerFailure."""
        ...


@dataclass(frozen=True, slots=True)
class ShellComputer:
    """The whole contract of a computer, on top of its ability to run a command."""

    shell: Shell
    #: Says where a path of the contract really is.
    place: Callable[[str], str] = str

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
        """See :class:`skillopt_ci.computer.computer.Computer`."""
        reason = _unspeakable((*command, cwd, *environ, *environ.values()))
        if reason or not command:
            return CommandResult(126, stderr=reason or "there is no command")
        folder = self.place(posixpath.join(WORKDIR, cwd))
        ended = await self.shell(
            Command(tuple(command), timeout, stdin, folder, environ, output_bytes)
        )
        return ended.result()

    async def read(self, path: str, *, max_bytes: int = 1_000_000) -> bytes:
        """See :class:`skillopt_ci.computer.computer.Computer`."""
        script = (_READ, self._file(path), str(max_bytes + 1))
        ended = await self._perform(path, script, output_bytes=max_bytes)
        return _complete(ended.stdout, path, max_bytes)

    async def write(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """See :class:`skillopt_ci.computer.computer.Computer`."""
        file = self._file(path)
        mode = "755" if executable else "644"
        script = (_WRITE, file, posixpath.dirname(file), mode, f"{file}.{secrets.token_hex(8)}")
        await self._perform(path, script, stdin=content)

    async def export(self, paths: Sequence[str], *, max_bytes: int) -> bytes:
        """See :class:`skillopt_ci.computer.computer.Computer`."""
        listing = await self._perform(WORKDIR, (_LIST,), output_bytes=_LISTING_BYTES)
        names = _complete(listing.stdout, WORKDIR, _LISTING_BYTES).split(b"\0")
        found = [name.decode("utf-8", "surrogateescape").removeprefix("./") for name in names[:-1]]
        contents = Contents(max_bytes)
        for portion in _portions(selected(found, paths)):
            limit = contents.left + _MEMBER_BYTES * len(portion) + _END_BYTES
            # One byte more tells a tar that is too large from one that just fits.
            script = (_PACK, str(limit + 1), *portion)
            packed = await self._perform(WORKDIR, script, output_bytes=limit)
            contents.add(unpack(_complete(packed.stdout, "the export", max_bytes)))
        return pack(contents.members)

    async def load(self, archive: bytes) -> None:
        """See :class:`skillopt_ci.computer.computer.Computer`."""
        members = with_parents(unpack(archive, strict=True))
        await self._perform(WORKDIR, (_UNPACK,), stdin=pack(members))

    def _file(self, path: str) -> str:
        if not path or path.endswith("/") or _unspeakable((path,)):
            raise FileRefused(f"{path!r} is not the name of a file.")
        return self.place(posixpath.join(WORKDIR, path))

    async def _perform(
        self, path: str, script: Sequence[str], *, stdin: bytes = b"", output_bytes: int = 4096
    ) -> Ended:
        text, *arguments = script
        command = ("/bin/sh", "-c", text, "sh", *arguments)
        ended = await self.shell(
            Command(command, _PATIENCE, stdin, self.place(WORKDIR), {}, output_bytes)
        )
        if ended.timed_out:
            raise ComputerFailure(f"{path}: the computer did not answer in {_PATIENCE:g} s.")
        if ended.exit_code:
            reason = _REASONS.get(ended.exit_code) or ended.stderr.text().strip()
            full = " The disk is full." if ended.limit == "disk" else ""
            raise FileRefused(f"{path}: {reason or 'it cannot be reached'}.{full}")
        return ended


def _unspeakable(words: Sequence[str]) -> str:
    """Return why no program can be given these words, nothing if one can.

    They may come from a model, so that this must not look like a failure of the computer.
    """
    if any("\0" in word for word in words):
        return "an argument has a zero byte"
    try:
        sizes = [len(os.fsencode(word)) for word in words]
    except UnicodeEncodeError:
        return "an argument is no text that can be encoded"
    long = max(sizes) > _ARGUMENT_BYTES or sum(sizes) > _ARGUMENTS_BYTES
    return "the arguments are too long" if long else ""


def _complete(output: Capture, path: str, max_bytes: int) -> bytes:
    if output.truncated:
        raise FileRefused(f"{path}: more than {max_bytes} bytes.")
    return output.content()


def _portions(names: Sequence[str]) -> list[list[str]]:
    """Divide names into command lines."""
    portions: list[list[str]] = []
    size = _LINE_BYTES
    for name in names:
        size += len(name.encode("utf-8", "surrogateescape")) + 1
        if size > _LINE_BYTES:
            portions.append([])
            size = 0
        portions[-1].append(name)
    return portions
