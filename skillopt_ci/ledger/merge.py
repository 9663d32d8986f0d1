"""Three-way merge of two commits in a private index: no checkout is needed or touched."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger import history
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.objects import read_blob
from skillopt_ci.ledger.store import write_blob
from skillopt_ci.ledger.tree import Entry

_REGULAR = ("100644", "100755")

#: Of one path: merge base, ours, theirs, as far as they have it.
Stages = dict[int, Entry]


@dataclass(frozen=True, slots=True)
class TakeIn:
    """The merged tree, or the paths over which the two sides disagree."""

    tree: str | None
    conflicts: tuple[str, ...] = ()


def merge_trees(git: Git, ours: str, theirs: str, keep: tuple[str, ...]) -> TakeIn:
    """Merge ``theirs`` into ``ours``; at and below the paths of ``keep``, ours stays as it is.

    Raises RepositoryError if the two have no common ancestor.
    """
    origin = history.merge_base(git, ours, theirs)
    if origin is None:
        raise RepositoryError(f"{ours[:12]} and {theirs[:12]} have no common history")
    with _private_index(git) as indexed:
        indexed.run("read-tree", "-i", "-m", "--aggressive", origin, ours, theirs)
        _restore(indexed, ours, keep)
        merged = {path: _merge_file(git, stages) for path, stages in _unmerged(indexed).items()}
        conflicts = tuple(path for path, found in merged.items() if found is None)
        if conflicts:
            return TakeIn(None, conflicts)
        _put_entries(indexed, merged)
        return TakeIn(indexed.text("write-tree"))


@contextmanager
def _private_index(git: Git) -> Iterator[Git]:
    """Give a git whose index is an empty file of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-") as folder:
        yield git.with_env(GIT_INDEX_FILE=str(Path(folder) / "index"))


def _put_entries(indexed: Git, entries: Mapping[str, Entry | None]) -> None:
    """Set entries of the private index; None removes. Their paths are those of trees."""
    absent = "0 " + "0" * len(indexed.text("hash-object", "--stdin"))
    lines = (
        f"{absent if found is None else f'{found.mode} {found.oid}'}\t{path}\0"
        for path, found in entries.items()
    )
    stdin = "".join(lines).encode("utf-8", "surrogateescape")
    indexed.run("update-index", "-z", "--index-info", stdin=stdin)


def _restore(indexed: Git, ours: str, keep: tuple[str, ...]) -> None:
    if not keep:
        return
    present = indexed.records("ls-files", "-z", "--cached", "--", *keep)
    entries: dict[str, Entry | None] = dict.fromkeys(present)
    for record in indexed.records("ls-tree", "-r", "-z", "--full-tree", ours, "--", *keep):
        facts, _, path = record.partition("\t")
        mode, _, oid = facts.split(" ")
        entries[path] = Entry(mode, oid)
    _put_entries(indexed, entries)


def _unmerged(indexed: Git) -> dict[str, Stages]:
    found: dict[str, Stages] = {}
    for record in indexed.records("ls-files", "-z", "--unmerged"):
        facts, _, path = record.partition("\t")
        mode, oid, stage = facts.split(" ")
        found.setdefault(path, {})[int(stage)] = Entry(mode, oid)
    return found


def _merge_file(git: Git, stages: Stages) -> Entry | None:
    """Merge one file's three versions; None if they conflict or one is not a regular file."""
    versions = [stages.get(number) for number in (2, 1, 3)]
    entries = [version for version in versions if version and version.mode in _REGULAR]
    if len(entries) != len(versions):
        return None
    ours, origin, theirs = entries
    content = _merge_contents(git, [entry.oid for entry in entries])
    if content is None:
        return None
    return Entry(theirs.mode if ours.mode == origin.mode else ours.mode, write_blob(git, content))


def _merge_contents(git: Git, oids: list[str]) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-") as folder:
        files = [Path(folder) / name for name in ("ours", "origin", "theirs")]
        for file, oid in zip(files, oids, strict=True):
            file.write_bytes(read_blob(git, oid))
        merged = git.attempt("merge-file", "-p", "--quiet", *(str(file) for file in files))
    return merged.stdout if merged.status == 0 else None
