from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git import objects
from skillopt_ci.git.process import Entry, Git, Object

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


@pytest.fixture
def git(repository: Path) -> Git:
    return Git(repository)


@pytest.mark.parametrize("content", [b"", b"\n", b"no newline", b"a\0b\r\n", b"x" * 300_000])
def test_blob_is_kept_byte_for_byte(git: Git, content: bytes) -> None:
    git.run("config", "core.autocrlf", "true")
    oid = objects.write_blob(git, content)
    assert git.run("cat-file", "blob", oid).stdout == content
    assert objects.find(git, oid) == Object(oid, "blob", content)


@pytest.mark.parametrize("name", ["nowhere", "0" * 40, "HEAD\nHEAD", "", "HEAD:nowhere", "a b"])
def test_name_of_nothing_is_none_and_the_next_answer_is_right(git: Git, name: str) -> None:
    assert objects.find(git, name) is None
    found = objects.find(git, "HEAD")
    assert found is not None
    assert found.oid == git.text("rev-parse", "HEAD")


def test_ref_is_looked_up_anew_each_time(bench: Bench, repository: Path, git: Git) -> None:
    before = objects.find(git, "main")
    after = bench.save(repository, "file", "x")
    found = objects.find(git, "main")
    assert before is not None
    assert found is not None
    assert before.oid != found.oid == after


def test_folder_is_what_git_lists(git: Git) -> None:
    blob = objects.write_blob(git, b"x")
    names = ["z", "a b", "line\nbreak", "ü", "\udcff", '"quoted"']
    oid = objects.write_tree(git, {name: Entry("100755", blob) for name in names})
    assert set(git.records("ls-tree", "-z", "--name-only", oid)) == set(names)
    assert git.text("fsck", "--strict", "--no-dangling") == ""


def test_empty_folder_can_be_written(git: Git) -> None:
    assert objects.write_tree(git, {}) == git.text("hash-object", "-t", "tree", "--stdin")


def test_housekeeping_and_a_move_in_between_do_no_harm(
    bench: Bench, repository: Path, git: Git
) -> None:
    old = objects.write_blob(git, b"old")
    tree = objects.write_tree(git, {"file": Entry("100644", old)})
    bench.git(repository, "tag", "kept", tree)
    bench.git(repository, "gc", "--quiet", "--prune=now")
    assert objects.write_tree(git, {"file": Entry("100644", old)}) == tree
    bench.git(repository, "repack", "--quiet", "-a", "-d", "-f")
    found = objects.find(git, old)
    assert found is not None
    assert found.content == b"old"
    repository.rename(repository.with_name("moved"))
    again = objects.find(git, old)
    assert again == found


def test_database_that_cannot_be_written_is_told_in_git_s_words(repository: Path, git: Git) -> None:
    oid = git.text("hash-object", "--stdin", stdin=b"x")
    (repository / ".git" / "objects" / oid[:2]).write_text("in the way")
    with pytest.raises(RepositoryError, match=r"git hash-object failed in .*: .*Not a directory"):
        objects.write_blob(git, b"x")
