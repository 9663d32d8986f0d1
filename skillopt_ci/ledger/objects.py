"""Read files out of commits, and write commits."""

from collections.abc import Callable, Mapping, Sequence

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger import store
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.tree import FOLDER, SUBMODULE, Entry, parse

_NOT_A_FILE = {
    "120000": "a symbolic link; name the file that it points at",
    SUBMODULE: "a submodule; files in it belong to another repository",
    FOLDER: "a folder",
}
#: Writes a commit with a tree, parents and a message, and returns its name.
CommitWriter = Callable[[Git, str, Sequence[str], str], str]


def read_tree(git: Git, tree: str) -> Mapping[str, Entry]:
    """Return what ``tree`` (or a commit's) has at its top, by name.

    Raises RepositoryError if there is no such tree.
    """
    oid, content = _tree(git, tree)
    known = git.trees.get(oid)
    if known is None:
        known = parse(content, oid)
        git.trees.put(oid, known, len(known))
    return known


def tree_of(git: Git, commit: str) -> str:
    """Return the name of a commit's tree; raises RepositoryError if there is none."""
    return _tree(git, commit)[0]


def _tree(git: Git, name: str) -> tuple[str, bytes]:
    found = store.find(git, f"{name}^{{tree}}")
    if found is None:
        raise RepositoryError(f"{name} is not a commit or tree of the repository {git.folder}")
    return found.oid, found.content


def entry(git: Git, tree: str, path: str) -> Entry | None:
    """Return what ``tree`` (or a commit's) has at ``path``, None if nothing."""
    *folders, name = path.split("/")
    for folder in folders:
        found = read_tree(git, tree).get(folder)
        if found is None or found.mode != FOLDER:
            return None
        tree = found.oid
    return read_tree(git, tree).get(name)


def read_file(git: Git, tree: str, path: str) -> str | None:
    """Return the text of a file in ``tree``, None if there is nothing at ``path``.

    Raises RepositoryError if it is not a regular file, or not UTF-8.
    """
    found = file_entry(git, tree, path)
    if found is None:
        return None
    content = read_blob(git, found.oid)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RepositoryError(
            f"{path}:{line}: not UTF-8 in commit {tree[:12]} (byte {error.start})",
            hint="Save the file as UTF-8 and commit it.",
        ) from error


def read_blob(git: Git, oid: str) -> bytes:
    """Return a file's content; raises RepositoryError if the repository lacks it."""
    found = store.find(git, oid)
    if found is None:
        raise RepositoryError(f"{oid} is missing in the repository {git.folder}")
    return found.content


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
    return git.remember("config", "--type=bool", "commit.gpgsign").text == "true"


def require_identity(git: Git) -> None:
    """Raise RepositoryError unless git knows a name and an e-mail address for commits."""
    for role in ("GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"):
        if git.remember("var", role).status != 0:
            raise RepositoryError(
                "git does not know who is committing",
                hint="Set git.author_name and git.author_email in the configuration, or\n"
                "git config --global user.name … && git config --global user.email …",
            )
