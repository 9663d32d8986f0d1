"""Read files out of commits, and write commits."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git.process import FOLDER, SUBMODULE, Entry, Git, Object, lines, parse

# The object database: objects read and written by processes of git that stay.

_UNKNOWN = (b" missing", b" ambiguous")


def find(git: Git, name: str) -> Object | None:
    """Return the object that ``name`` means in git's notation, None if it means none.

    Raises RepositoryError if the database cannot be read.
    """
    if "\n" in name:  # two requests, to git
        return None
    if (known := git.objects.get(name)) is not None:
        return known
    request = name.encode("utf-8", "surrogateescape") + b"\n"
    found = git.ask("cat-file", "--batch", request=request, answer=_read_object)
    if found is not None:
        git.objects.put(name, found)
    return found


def write_blob(git: Git, content: bytes) -> str:
    """Write ``content`` as it is, without the filters of the checkout, and return its name.

    Raises RepositoryError if the database cannot be written.
    """
    with tempfile.NamedTemporaryFile(prefix="skillopt-ci-") as file:
        file.write(content)
        file.flush()
        request = file.name.encode("utf-8", "surrogateescape") + b"\n"
        how = ("hash-object", "-w", "--no-filters", "--stdin-paths")
        return git.ask(*how, request=request, answer=_read_name)


def write_tree(git: Git, entries: Mapping[str, Entry]) -> str:
    """Write a folder and return its name; what the entries name need not be in a partial clone.

    Raises RepositoryError if the database cannot be written.
    """
    how = ("mktree", "-z", "--missing", "--batch")
    return git.ask(*how, request=lines(entries) + b"\0", answer=_read_name)


def _read_object(answers: IO[bytes]) -> Object | None:
    head = _read_line(answers)
    if head.endswith(_UNKNOWN):
        return None
    oid, kind, size = head.decode("ascii").split(" ")
    content = answers.read(int(size))
    if len(content) < int(size) or answers.read(1) != b"\n":
        raise EOFError
    return Object(oid, kind, content)


def _read_name(answers: IO[bytes]) -> str:
    return _read_line(answers).decode("ascii")


def _read_line(answers: IO[bytes]) -> bytes:
    line = answers.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line[:-1]


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
    found = find(git, f"{name}^{{tree}}")
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
    found = find(git, oid)
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


# Change files of a tree: only the folders on the way to them are read and written again.

_REGULAR_FILE = "100644"
#: What git has in no tree, in whatever case: some systems do not tell it apart.
_NO_NAMES = ("", ".", "..", ".git")

#: New entries of a folder, by their paths' parts; None removes.
_Changes = Mapping[tuple[str, ...], Entry | None]


def change_tree(git: Git, tree: str, changes: Mapping[str, str | None]) -> str:
    """Write ``tree`` with new texts at some paths (None removes) and return its name.

    Modes of existing files stay. Raises RepositoryError for a path that cannot be a file.
    """
    entries = {_parts(path): _store(git, tree, path, text) for path, text in changes.items()}
    if not entries:
        return tree_of(git, tree)
    changed = _changed(git, read_tree(git, tree), entries)
    return write_tree(git, changed)


def _parts(path: str) -> tuple[str, ...]:
    parts = tuple(path.split("/"))
    if "\0" in path or any(part.lower() in _NO_NAMES for part in parts):
        raise RepositoryError(f"not a path inside the repository: {path!r}")
    return parts


def _changed(git: Git, before: Mapping[str, Entry], changes: _Changes) -> dict[str, Entry]:
    """A folder's entries after ``changes``; its folders are written, itself not yet."""
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
        _change_folder(git, entries, name, inner)
    return entries


def _change_folder(git: Git, entries: dict[str, Entry], name: str, changes: _Changes) -> None:
    """Apply ``changes`` to a folder in ``entries``: made if need be, and gone once it is empty."""
    found = entries.get(name)
    is_folder = found is not None and found.mode == FOLDER
    changed = _changed(git, read_tree(git, found.oid) if found and is_folder else {}, changes)
    if changed:
        entries[name] = Entry(FOLDER, write_tree(git, changed))
    elif is_folder:
        del entries[name]


def _store(git: Git, tree: str, path: str, text: str | None) -> Entry | None:
    found = file_entry(git, tree, path)
    if text is None:
        return None
    mode = _REGULAR_FILE if found is None else found.mode
    return Entry(mode, write_blob(git, text.encode("utf-8")))


# Read many files of many commits by one git process.


def read_texts(git: Git, files: Sequence[tuple[str, str]]) -> tuple[str | None, ...]:
    """The texts of ``files``, each a commit and a path in it, in their order.

    None stands for a file that is not there or is no UTF-8 text. Paths with line feeds are not
    there. What a link points at counts as its text.
    """
    asked = [f"{commit}:{path}" if "\n" not in path else "" for commit, path in files]
    answer = git.run("cat-file", "--batch", stdin="".join(f"{one}\n" for one in asked).encode())
    return tuple(_texts(answer.stdout, len(files)))


def _texts(answer: bytes, count: int) -> Iterator[str | None]:
    start = 0
    for _ in range(count):
        end = answer.index(b"\n", start)
        head, start = answer[start:end].split(b" "), end + 1
        if head[-1] == b"missing" or not head[-1].isdigit():
            yield None
            continue
        size = int(head[-1])
        content, kind = answer[start : start + size], head[-2]
        start += size + 1
        try:
            yield content.decode("utf-8") if kind == b"blob" else None
        except UnicodeDecodeError:
            yield None
