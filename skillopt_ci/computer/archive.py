"""Tars that are taken apart with suspicion and put together the same way every time."""

import io
import posixpath
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from skillopt_ci.computer.errors import FileRefused


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
