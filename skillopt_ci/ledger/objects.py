"""Read files out of commits, and build trees and commits from them through a private index."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.git import Git

_REGULAR_FILE = "100644"
_NOT_A_FILE = {
    "120000": "a symbolic link; name the file that it points at",
    "160000": "a submodule; files in it belong to another repository",
    "040000": "a folder",
}


#: Writes a commit with a tree, parents and a message, and returns its name.
CommitWriter = Callable[[Git, str, Sequence[str], str], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree has at a path: mode as git writes it, and the object's name."""

    mode: str
    oid: str


def entry(git: Git, tree: str, path: str) -> Entry | None:
    """Return what ``tree`` (or a commit's) has at ``path``, None if nothing."""
    found = git.records("ls-tree", "-z", "--full-tree", tree, "--", path)
    if not found:
        return None
    mode, _, oid = found[0].partition("\t")[0].split(" ")
    return Entry(mode, oid)


def read_file(git: Git, tree: str, path: str) -> str | None:
    """Return the text of a file in ``tree``, None if there is nothing at ``path``.

    Raises RepositoryError if it is not a regular file, or not UTF-8.
    """
    found = file_entry(git, tree, path)
    if found is None:
        return None
    content = git.run("cat-file", "blob", found.oid).stdout
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RepositoryError(
            f"{path}:{line}: not UTF-8 in commit {tree[:12]} (byte {error.start})",
            hint="Save the file as UTF-8 and commit it.",
        ) from error


def file_entry(git: Git, tree: str, path: str) -> Entry | None:
    """Return the entry of a regular file; raises RepositoryError if it is something else."""
    found = entry(git, tree, path)
    if found is not None and found.mode in _NOT_A_FILE:
        raise RepositoryError(f"{path} in commit {tree[:12]} is {_NOT_A_FILE[found.mode]}")
    return found


def list_files(git: Git, tree: str, folder: str) -> tuple[str, ...]:
    """Return the paths of all files below ``folder`` (the whole tree if empty), sorted by git."""
    below = ("--", folder.rstrip("/") + "/") if folder else ()
    return git.records("ls-tree", "-r", "-z", "--full-tree", "--name-only", tree, *below)


@contextmanager
def private_index(git: Git) -> Iterator[Git]:
    """Give a git whose index is an empty file of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="skillopt-ci-") as folder:
        yield git.with_env(GIT_INDEX_FILE=str(Path(folder) / "index"))


def change_tree(git: Git, tree: str, changes: Mapping[str, str | None]) -> str:
    """Write ``tree`` with new texts at some paths (None removes) and return its name.

    Modes of existing files stay. Raises RepositoryError for a path that cannot be a file.
    """
    if not changes:
        return git.text("rev-parse", "--verify", f"{tree}^{{tree}}")
    entries = {path: _store(git, tree, path, text) for path, text in changes.items()}
    with private_index(git) as indexed:
        indexed.run("read-tree", tree)
        put_entries(indexed, entries)
        return indexed.text("write-tree")


def put_entries(indexed: Git, entries: Mapping[str, Entry | None]) -> None:
    """Set entries of the private index; None removes.

    Raises RepositoryError for a path that git would not have in a tree.
    """
    absent = "0 " + "0" * len(indexed.text("hash-object", "--stdin"))
    lines = (
        f"{absent if found is None else f'{found.mode} {found.oid}'}\t{path}\0"
        for path, found in entries.items()
    )
    stdin = "".join(lines).encode("utf-8", "surrogateescape")
    done = indexed.run("update-index", "-z", "--index-info", stdin=stdin)
    if "Ignoring path" in done.stderr:
        raise RepositoryError(f"not a path inside the repository: {done.stderr.strip()}")


def _store(git: Git, tree: str, path: str, text: str | None) -> Entry | None:
    found = file_entry(git, tree, path)
    if text is None:
        return None
    mode = _REGULAR_FILE if found is None else found.mode
    return Entry(mode, store_blob(git, text.encode("utf-8")))


def store_blob(git: Git, content: bytes) -> str:
    """Write ``content`` as it is, without the filters of the checkout, and return its name."""
    return git.text("hash-object", "-w", "--stdin", stdin=content)


def write_commit(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """Write a commit and return its name; it is signed if ``commit.gpgsign`` says so.

    Raises RepositoryError if git does not know who is committing, or cannot sign.
    """
    signing = ("-S",) if signs(git) else ()
    lineage = [word for parent in parents for word in ("-p", parent)]
    made = git.attempt(
        "commit-tree", tree, *lineage, *signing, "-F", "-", stdin=message.encode("utf-8")
    )
    if made.status != 0:
        require_identity(git)
        raise RepositoryError(f"git could not write a commit: {made.stderr.strip()}")
    return made.text


def signs(git: Git) -> bool:
    """Tell whether the user wants commits signed."""
    return git.attempt("config", "--type=bool", "commit.gpgsign").text == "true"


def require_identity(git: Git) -> None:
    """Raise RepositoryError unless git knows a name and an e-mail address for commits."""
    for role in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if git.attempt("var", role).status != 0:
            raise RepositoryError(
                "git does not know who is committing",
                hint="Set git.author_name and git.author_email in the configuration, or\n"
                "git config --global user.name … && git config --global user.email …",
            )
