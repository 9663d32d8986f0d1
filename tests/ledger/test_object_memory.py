from __future__ import annotations

from pathlib import Path

import pytest

from skillopt_ci.git import objects
from skillopt_ci.git.process import Git, Object, ObjectMemory

NAME = "a" * 40


def blob(content: bytes) -> Object:
    return Object(NAME, "blob", content)


@pytest.mark.parametrize("name", [NAME, "b" * 64, NAME + "^{tree}"])
def test_what_a_hash_names_is_remembered(name: str) -> None:
    memory = ObjectMemory()
    memory.put(name, blob(b"x"))
    assert memory.get(name) == blob(b"x")


@pytest.mark.parametrize("name", ["HEAD", "main", "a" * 39, "a" * 41, NAME + "~1", "main^{tree}"])
def test_what_may_come_to_mean_something_else_is_not(name: str) -> None:
    memory = ObjectMemory()
    memory.put(name, blob(b"x"))
    assert memory.get(name) is None


def test_the_oldest_goes_where_there_is_no_room_and_what_is_too_large_is_not_kept() -> None:
    names, memory = [digit * 40 for digit in "abcd"], ObjectMemory(room=10)
    for name in names[:3]:
        memory.put(name, blob(b"1234"))
        memory.put(name, blob(b"1234"))
    assert [memory.get(name) is None for name in names] == [True, False, False, True]
    memory.put(names[3], blob(b"x" * 11))
    assert [memory.get(name) is None for name in names] == [True, True, True, True]
    memory.put(names[0], blob(b"x" * 10))
    assert memory.get(names[0]) is not None


def test_an_object_is_read_from_the_repository_once(repository: Path) -> None:
    git = Git(repository)
    oid = objects.write_blob(git, b"text")
    assert objects.find(git, oid) == objects.find(git, oid)
    (repository / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    found = objects.find(git, oid)
    assert found is not None
    assert found.content == b"text"
    assert objects.find(Git(repository), oid) is None


def test_what_is_missing_is_looked_for_again(repository: Path) -> None:
    git, other = Git(repository), Git(repository)
    oid = git.run("hash-object", "--stdin", stdin=b"later").text
    assert objects.find(git, oid) is None
    objects.write_blob(other, b"later")
    assert objects.find(git, oid) is not None
