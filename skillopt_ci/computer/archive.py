"""Safe unpacking and reproducible packing of tar archives, and globs that select files."""

import io
import posixpath
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from skillopt_ci.errors import FileRefused

#: Linux rejects longer paths.
_LONGEST_PATH = 4096
#: More than an agent may leave behind. The holes of sparse files count, which take no space in a
#: tar but do in memory.
_MOST_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class Member:
    """A file, folder or symbolic link (to ``target``) under a path that stays inside."""

    name: str
    content: bytes = b""
    executable: bool = False
    folder: bool = False
    target: str = ""


def unpack(archive: bytes, *, strict: bool = False) -> list[Member]:
    """The files, folders and internal links; others raise FileRefused if ``strict``."""
    members: dict[str, Member] = {}
    left = _MOST_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for info in tar:
                left -= abs(info.size)
                if left < 0:
                    raise FileRefused(f"the archive has files of more than {_MOST_BYTES:,} bytes.")
                if (member := _member(tar, info, members)) is not None:
                    members[member.name] = member
                elif strict and posixpath.normpath(info.name) != ".":
                    raise FileRefused(
                        f"the archive has {info.name!r}, which is no file, folder or link inside."
                    )
    except (tarfile.TarError, EOFError, UnicodeError, ValueError, OverflowError) as error:
        raise FileRefused(f"the archive is not a readable tar: {error}.") from error
    # Nothing may be written through a link or a file.
    blocked = {"": ""}
    for path in _with_folders(members):
        folder = path.rpartition("/")[0]
        above = members.get(folder)
        blocked[path] = blocked[folder] or ("" if above is None or above.folder else folder)
    if strict and (name := next(filter(blocked.get, members), "")):
        raise FileRefused(f"the archive has {name!r} below {blocked[name]!r}, no folder.")
    return [member for member in members.values() if not blocked[member.name]]


def _member(
    tar: tarfile.TarFile, info: tarfile.TarInfo, before: dict[str, Member]
) -> Member | None:
    name = posixpath.normpath(info.name)
    outside = info.name.startswith("/") or name == "." or ".." in info.name.split("/")
    if outside or len(name) > _LONGEST_PATH:
        return None
    if info.isdir():
        return Member(name, folder=True)
    if info.issym():
        return Member(name, target=info.linkname) if stays_inside(name, info.linkname) else None
    if info.islnk():
        # A hard link to an earlier file is a copy of that file.
        same = before.get(posixpath.normpath(info.linkname))
        return None if same is None or same.folder or same.target else replace(same, name=name)
    stream = tar.extractfile(info) if info.isreg() else None
    return None if stream is None else Member(name, stream.read(), bool(info.mode & 0o100))


def stays_inside(name: str, target: str) -> bool:
    """Whether a symbolic link stays inside; rejects ``..`` after a name, which may be a link."""
    ascents = re.match(r"(?:\.\.(?:/|$))*", target)
    climbs = ascents[0].count("..") if ascents else 0
    return (
        bool(target)
        and not target.startswith("/")
        and ".." not in target.split("/")[climbs:]
        and climbs <= name.count("/")
    )


def with_parents(members: Iterable[Member]) -> list[Member]:
    """Add the members' parent folders: when unpacked, these replace links in their place."""
    given = {member.name: member for member in members}
    return [given.get(name) or Member(name, folder=True) for name in _with_folders(given)]


def _with_folders(paths: Iterable[str]) -> Iterable[str]:
    """``paths``, each after its parent folders; takes time linear in their number."""
    found: dict[str, None] = {}
    for path in paths:
        fresh = []
        while path and path not in found:
            fresh.append(path)
            path = path.rpartition("/")[0]  # noqa: PLW2901 - up to the first known folder
        found.update(dict.fromkeys(reversed(fresh)))
    return found


def pack(members: Iterable[Member]) -> bytes:
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
    """The ``files`` (relative paths) that match ``patterns``, sorted.

    ``*`` and ``?`` match within a part of the path, ``**`` any parts, ``[ab]`` and ``[!ab]`` one
    character. A folder selects all that is in it. FileRefused for a pattern that leads outside.
    """
    left = {"": {_parts(pattern) for pattern in patterns}}
    for path in _with_folders(files):
        folder, _, name = path.rpartition("/")
        left[path] = {rest for pattern in left[folder] for rest in _rests(pattern, name)}
    return sorted(file for file in files if () in left[file])


def _parts(pattern: str) -> tuple[str, ...]:
    parts = tuple(part for part in pattern.split("/") if part not in {"", "."})
    if pattern.startswith("/") or ".." in parts:
        raise FileRefused(f"{pattern}: only paths inside the agent's folder can be exported.")
    return parts or ("**",)


def _rests(pattern: tuple[str, ...], name: str) -> Iterator[tuple[str, ...]]:
    """The possible rests of ``pattern`` after ``name``; empty inside a folder that it selects."""
    if not pattern:
        yield pattern
    elif pattern[0] == "**" and len(pattern) > 1:
        yield pattern
        yield from _rests(pattern[1:], name)
    elif fnmatchcase(name, pattern[0]):
        yield pattern[1:]
