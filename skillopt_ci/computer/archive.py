"""Tars that are unpacked with suspicion and packed reproducibly, and globs that select files."""

import io
import posixpath
import re
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from skillopt_ci.errors import FileRefused


@dataclass(frozen=True, slots=True)
class Member:
    """A file, folder or symbolic link (to ``target``) under a path that stays inside."""

    name: str
    content: bytes = b""
    executable: bool = False
    folder: bool = False
    target: str = ""


def unpack(archive: bytes, *, strict: bool = False) -> list[Member]:
    """Return the members of a tar that are regular files, folders, or links that stay inside.

    Anything else is left out, or refused with :class:`FileRefused` if ``strict``; so is a tar that
    cannot be read.
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
    kept = []
    for member in members.values():  # nothing is written through a link or a file
        above = [name for name in _parents(member.name) if name in members]
        blocked = [name for name in above if not members[name].folder]
        if blocked and strict:
            raise FileRefused(f"the archive has {member.name!r} below {blocked[0]!r}, no folder.")
        if not blocked:
            kept.append(member)
    return kept


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
    """Tell whether the symbolic link ``name`` can only ever lead to what is inside as well.

    ``..`` counts at the beginning of the target only, where it goes up through real folders;
    further on it could go up from wherever another link leads to.
    """
    ascents = re.match(r"(?:\.\.(?:/|$))*", target)
    climbs = ascents[0].count("..") if ascents else 0
    return (
        bool(target)
        and not target.startswith("/")
        and ".." not in target.split("/")[climbs:]
        and climbs <= name.count("/")
    )


def with_parents(members: Iterable[Member]) -> list[Member]:
    """Add the folders that members are in: unpacked, they replace links laid in their place."""
    given = {member.name: member for member in members}
    above = {name: Member(name, folder=True) for path in given for name in _parents(path)}
    return list((above | given).values())


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def pack(members: Iterable[Member]) -> bytes:
    """Return a tar that depends on nothing but the members: no times, no owners, sorted."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in sorted(members, key=lambda one: one.name):
            info = tarfile.TarInfo(member.name)
            info.size = len(member.content)
            info.mode = 0o755 if member.executable or member.folder else 0o644
            if member.folder:
                info.type = tarfile.DIRTYPE
            elif member.target:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, member.target, 0o777
            tar.addfile(info, io.BytesIO(member.content))
    return file.getvalue()


def selected(files: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return those of ``files`` (relative paths) that ``patterns`` name, sorted.

    ``*`` and ``?`` match within a part of the path, ``**`` over any number of parts, ``[ab]`` and
    ``[!ab]`` one character. A folder means everything in it. Raises FileRefused for a pattern that
    leads outside.
    """
    wanted = [_parts(pattern) for pattern in patterns]
    return sorted(file for file in files if any(_names(one, file.split("/")) for one in wanted))


def _parts(pattern: str) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    if pattern.startswith("/") or ".." in parts:
        raise FileRefused(f"{pattern}: only paths inside the agent's folder can be exported.")
    return parts or ["**"]


def _names(pattern: Sequence[str], path: Sequence[str]) -> bool:
    """Whether ``pattern`` means ``path`` or a folder that it is in."""
    if not pattern:
        return True
    if pattern[0] == "**" and any(_names(pattern[1:], path[at:]) for at in range(1, len(path))):
        return True
    first = "*" if pattern == ["**"] else pattern[0]
    if first == "**":
        return _names(pattern[1:], path)
    return bool(path) and fnmatchcase(path[0], first) and _names(pattern[1:], path[1:])
