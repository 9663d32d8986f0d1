"""A folder as git stores it: names, and the mode and object of each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FOLDER = "040000"
SUBMODULE = "160000"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree has at a path: mode as git writes it, and the object's name."""

    mode: str
    oid: str


def parse(content: bytes, oid: str) -> dict[str, Entry]:
    """Return the entries of the tree object ``oid``, whose name says how long names are."""
    return dict(_entries(content, len(oid) // 2))


def lines(entries: Mapping[str, Entry]) -> bytes:
    """Word the entries for ``git mktree -z``, which puts them in order."""
    found = (
        f"{entry.mode} {_kind(entry.mode)} {entry.oid}\t{name}\0" for name, entry in entries.items()
    )
    return "".join(found).encode("utf-8", "surrogateescape")


def _entries(content: bytes, width: int) -> Iterator[tuple[str, Entry]]:
    start = 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 1 + width
        oid = content[end + 1 : start].hex()
        entry = Entry(mode.decode("ascii").zfill(6), oid)
        yield name.decode("utf-8", "surrogateescape"), entry


def _kind(mode: str) -> str:
    return {FOLDER: "tree", SUBMODULE: "commit"}.get(mode, "blob")
