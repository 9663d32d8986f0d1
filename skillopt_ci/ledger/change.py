"""Change files of a tree: only the folders on the way to them are read and written again."""

from collections.abc import Mapping

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger import store
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.objects import file_entry, read_tree, tree_of
from skillopt_ci.ledger.tree import FOLDER, Entry

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
    return store.write_tree(git, changed)


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
        entries[name] = Entry(FOLDER, store.write_tree(git, changed))
    elif is_folder:
        del entries[name]


def _store(git: Git, tree: str, path: str, text: str | None) -> Entry | None:
    found = file_entry(git, tree, path)
    if text is None:
        return None
    mode = _REGULAR_FILE if found is None else found.mode
    return Entry(mode, store.write_blob(git, text.encode("utf-8")))
