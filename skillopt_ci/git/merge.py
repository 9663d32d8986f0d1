"""Three-way merge of two commits in a private index: no checkout is needed or touched."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git import history
from skillopt_ci.git.objects import Entry, read_blob, write_blob
from skillopt_ci.git.process import Git

_REGULAR = ("100644", "100755")


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
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-") as folder:
        indexed = git.with_env(GIT_INDEX_FILE=str(Path(folder) / "index"))
        indexed.run("read-tree", "-i", "-m", "--aggressive", origin, ours, theirs)
        if keep:
            present = indexed.records("ls-files", "-z", "--cached", "--", *keep)
            kept: dict[str, Entry | None] = dict.fromkeys(present)
            for record in indexed.records("ls-tree", "-r", "-z", "--full-tree", ours, "--", *keep):
                facts, _, path = record.partition("\t")
                mode, _, oid = facts.split(" ")
                kept[path] = Entry(mode, oid)
            _put_entries(indexed, kept)
        unmerged: dict[str, dict[str, Entry]] = {}
        for record in indexed.records("ls-files", "-z", "--unmerged"):
            facts, _, path = record.partition("\t")
            mode, oid, stage = facts.split(" ")
            unmerged.setdefault(path, {})[stage] = Entry(mode, oid)
        merged = {path: _merge_file(git, stages) for path, stages in unmerged.items()}
        if conflicts := tuple(path for path, found in merged.items() if found is None):
            return TakeIn(None, conflicts)
        _put_entries(indexed, merged)
        return TakeIn(indexed.text("write-tree"))


def _put_entries(indexed: Git, entries: Mapping[str, Entry | None]) -> None:
    """Set entries of the private index; None removes. Their paths are those of trees."""
    absent = "0 " + "0" * len(indexed.text("hash-object", "--stdin"))
    lines = (
        f"{absent if found is None else f'{found.mode} {found.oid}'}\t{path}\0"
        for path, found in entries.items()
    )
    stdin = "".join(lines).encode("utf-8", "surrogateescape")
    indexed.run("update-index", "-z", "--index-info", stdin=stdin)


def _merge_file(git: Git, stages: Mapping[str, Entry]) -> Entry | None:
    """Merge one file's versions, by their stage in the index: 1 origin, 2 ours, 3 theirs.

    None if they conflict, or one is missing or not a regular file.
    """
    entries = [stages[stage] for stage in "213" if stage in stages]
    if len(entries) < len("213") or any(entry.mode not in _REGULAR for entry in entries):
        return None
    ours, origin, theirs = entries
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-") as folder:
        files = [Path(folder) / name for name in ("ours", "origin", "theirs")]
        for file, entry in zip(files, entries, strict=True):
            file.write_bytes(read_blob(git, entry.oid))
        merged = git.attempt("merge-file", "-p", "--quiet", *map(str, files))
    if merged.status != 0:
        return None
    mode = theirs.mode if ours.mode == origin.mode else ours.mode
    return Entry(mode, write_blob(git, merged.stdout))
