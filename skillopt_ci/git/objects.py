"""Read, write and merge git objects without a checkout. Raises RepositoryError if git fails."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git.process import Git

TREE = "040000"
SUBMODULE = "160000"
_REGULAR_FILE = "100644"
_NOT_A_FILE = {
    "120000": "a symbolic link; name the file that it points at",
    SUBMODULE: "a submodule; files in it belong to another repository",
    TREE: "a folder",
}
#: No tree may have these names, in any case: some file systems ignore case.
_NO_NAMES = ("", ".", "..", ".git")

#: Trees kept in memory: those on the way to a run's files, each with a name for every step.
_MOST_TREES = 32

#: Writes a commit with a tree, parents and a message, and returns its name.
CommitWriter = Callable[[Git, str, Sequence[str], str], str]


class Object(NamedTuple):
    """An object in git's database; ``kind`` is blob, tree, commit or tag."""

    oid: str
    kind: str
    content: bytes


class Entry(NamedTuple):
    """An entry of a tree: the mode as git writes it, and the object's name."""

    mode: str
    oid: str


def find(git: Git, name: str) -> Object | None:
    """The object that ``name`` denotes in git's notation, or None."""
    if "\n" in name:  # git would read two requests
        return None
    request = name.encode("utf-8", "surrogateescape") + b"\n"
    return git.ask("cat-file", "--batch", request=request, read=_read_object)


def _read_object(answers: IO[bytes]) -> Object | None:
    head = _read_line(answers)
    if not head.rpartition(" ")[2].isdigit():  # `missing`, `ambiguous`, `submodule`
        return None
    oid, kind, size = head.split(" ")
    content = answers.read(int(size))
    if len(content) < int(size) or answers.read(1) != b"\n":
        raise EOFError
    return Object(oid, kind, content)


def _read_line(answers: IO[bytes]) -> str:
    line = answers.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line[:-1].decode("utf-8", "surrogateescape")


def write_blob(git: Git, content: bytes) -> str:
    with tempfile.NamedTemporaryFile(prefix="skillopt-ci-") as file:
        file.write(content)
        file.flush()
        request = file.name.encode("utf-8", "surrogateescape") + b"\n"
        how = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        return git.ask(*how, request=request, read=_read_line)


def read_tree(git: Git, tree: str) -> Mapping[str, Entry]:
    known: Mapping[str, Entry] | None = git.trees.pop(tree, None)
    if known is None:
        if (found := find(git, f"{tree}^{{tree}}")) is None:
            raise RepositoryError(f"{tree} is not a commit or tree of the repository {git.folder}")
        tree = found.oid
        known = parse_tree(found.content, len(found.oid) // 2)
        if len(git.trees) == _MOST_TREES:  # the first one has not been read for longest
            git.trees.pop(next(iter(git.trees)))
    git.trees[tree] = known
    return known


def parse_tree(content: bytes, oid_bytes: int) -> Mapping[str, Entry]:
    entries: dict[str, Entry] = {}
    start = 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 1 + oid_bytes
        oid = content[end + 1 : start].hex()
        entries[name.decode("utf-8", "surrogateescape")] = Entry(mode.decode().zfill(6), oid)
    return entries


def write_tree(git: Git, entries: Mapping[str, Entry]) -> str:
    """In a partial clone, the objects need not be present."""
    kinds = {TREE: "tree", SUBMODULE: "commit"}
    lines = (
        f"{entry.mode} {kinds.get(entry.mode, 'blob')} {entry.oid}\t{name}\0"
        for name, entry in entries.items()
    )
    # git sorts them; an empty line ends the tree
    request = "".join((*lines, "\0")).encode("utf-8", "surrogateescape")
    return git.ask("mktree", "-z", "--missing", "--batch", request=request, read=_read_line)


def find_entry(git: Git, tree: str, path: str, *, file_only: bool = True) -> Entry | None:
    """None if nothing is there; RepositoryError if ``file_only`` and it is no regular file."""
    *folders, name = path.split("/")
    inner = tree
    for folder in folders:
        found = read_tree(git, inner).get(folder)
        if found is not None and found.mode == SUBMODULE:
            raise RepositoryError(
                f"{path} is in the submodule {folder}, so it belongs to another repository",
                hint="Train it there: run skillopt-ci in a clone of that repository.",
            )
        if found is None or found.mode != TREE:
            return None
        inner = found.oid
    found = read_tree(git, inner).get(name)
    if file_only and found is not None and found.mode in _NOT_A_FILE:
        raise RepositoryError(f"{path} in commit {tree[:12]} is {_NOT_A_FILE[found.mode]}")
    return found


def read_file(git: Git, tree: str, path: str) -> str | None:
    """None if there is nothing at ``path``; RepositoryError if it is not a regular UTF-8 file."""
    if (found := find_entry(git, tree, path)) is None:
        return None
    if (blob := find(git, found.oid)) is None:
        raise RepositoryError(f"{found.oid} is missing in the repository {git.folder}")
    content = blob.content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RepositoryError(
            f"{path}:{line}: not UTF-8 in commit {tree[:12]} (byte {error.start})",
            hint="Save the file as UTF-8 and commit it.",
        ) from error


def change_tree(git: Git, tree: str, changes: Mapping[str, str | None]) -> str:
    """Write ``tree`` with new texts at some paths (None removes); existing files keep their modes.

    Raises RepositoryError if a path cannot be a file.
    """
    entries: dict[tuple[str, ...], Entry | None] = {}
    for path, text in changes.items():
        parts = tuple(path.split("/"))
        if "\0" in path or any(part.lower() in _NO_NAMES for part in parts):
            raise RepositoryError(f"not a path inside the repository: {path!r}")
        found = find_entry(git, tree, path)
        mode = _REGULAR_FILE if found is None else found.mode
        entries[parts] = None if text is None else Entry(mode, write_blob(git, text.encode()))
    return write_tree(git, _changed(git, read_tree(git, tree), entries))


def _changed(
    git: Git, before: Mapping[str, Entry], changes: Mapping[tuple[str, ...], Entry | None]
) -> dict[str, Entry]:
    entries = dict(before)
    below: dict[str, dict[tuple[str, ...], Entry | None]] = {}
    for (name, *rest), new in changes.items():
        if rest:
            below.setdefault(name, {})[tuple(rest)] = new
        elif new is None:
            entries.pop(name, None)
        else:
            entries[name] = new
    for name, inner in below.items():
        found = entries.get(name)
        is_folder = found is not None and found.mode == TREE
        changed = _changed(git, read_tree(git, found.oid) if found and is_folder else {}, inner)
        if changed:
            entries[name] = Entry(TREE, write_tree(git, changed))
        elif is_folder:
            del entries[name]
    return entries


def write_commit(git: Git, tree: str, parents: Sequence[str], message: str) -> str:
    """Write a commit, signed if git is so configured. Raises RepositoryError if git refuses."""
    signing = ("-S",) if signs(git) else ()
    lineage = [word for parent in parents for word in ("-p", parent)]
    made = git.attempt("commit-tree", tree, *lineage, *signing, "-F", "-", stdin=message.encode())
    if made.status != 0:
        require_identity(git)
        raise RepositoryError(
            f"git could not write a commit: {made.stderr.strip() or f'exit status {made.status}'}",
            hint="It has to sign (commit.gpgSign); `git commit -S` shows more." if signing else "",
        )
    return made.text


def signs(git: Git) -> bool:
    return git.remember("config", "--type=bool", "commit.gpgsign").text == "true"


def require_identity(git: Git) -> None:
    for role in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if git.remember("var", role).status != 0:
            raise RepositoryError(
                "git does not know who is committing",
                hint="Set git.author_name and git.author_email in the configuration, or\n"
                "git config --global user.name … && git config --global user.email …",
            )


class MergedTree(NamedTuple):
    """The tree, or None and the paths in conflict."""

    tree: str | None
    conflicts: tuple[str, ...] = ()


def merge_trees(git: Git, ours: str, theirs: str, keep: Sequence[str]) -> MergedTree:
    """Merge ``theirs`` into ``ours`` without a checkout; at and below ``keep``, ours wins."""
    how = ("merge-tree", "--write-tree", "--no-messages", "--name-only", "-z")
    merged = git.attempt(*how, ours, theirs)
    if merged.status not in (0, 1):
        raise RepositoryError(
            f"git could not merge {theirs[:12]} into {ours[:12]}: {merged.stderr.strip()}",
            hint="It needs git 2.38 or newer.",
        )
    tree, *conflicts = merged.text.rstrip("\0").split("\0")
    # where one side has a file and the other a folder, git appends the side to the file's name
    conflicts = [path.removesuffix(f"~{ours}").removesuffix(f"~{theirs}") for path in conflicts]
    kept = tuple(f"{path}/" for path in keep)
    if left := tuple(path for path in conflicts if not f"{path}/".startswith(kept)):
        return MergedTree(None, left)
    entries = {tuple(p.split("/")): find_entry(git, ours, p, file_only=False) for p in keep}
    return MergedTree(write_tree(git, _changed(git, read_tree(git, tree), entries)))
