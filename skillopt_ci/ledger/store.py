"""The object database: objects read and written by processes of git that stay."""

import tempfile
from collections.abc import Mapping
from typing import IO

from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.object_memory import Object
from skillopt_ci.ledger.tree import Entry, lines

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
