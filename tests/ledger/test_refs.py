from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import LostRace, RepositoryError
from skillopt_ci.ledger import refs
from skillopt_ci.ledger.git import Git
from skillopt_ci.ledger.refs import Move

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


@pytest.fixture
def git(repository: Path) -> Git:
    return Git(repository)


@pytest.fixture
def head(git: Git) -> str:
    return git.text("rev-parse", "HEAD")


def test_names_of_a_run() -> None:
    names = refs.for_run("demo", "main")
    assert [refs.branch(name) for name in names.all] == [
        "main",
        "skillopt/demo",
        "skillopt-candidate/demo",
    ]
    assert refs.tracking("up", names.skills) == "refs/remotes/up/skillopt/demo"


def test_read_returns_only_what_exists_by_its_whole_name(git: Git, head: str) -> None:
    git.run("branch", "a/b")
    assert refs.read(git, "refs/heads/main", "refs/heads/a") == {"refs/heads/main": head}


@pytest.mark.parametrize("expect_absence", [True, False])
def test_moves_happen_together_or_not_at_all(
    bench: Bench, repository: Path, git: Git, head: str, expect_absence: bool
) -> None:
    other = bench.save(repository, "file", "x")
    git.run("branch", "taken")
    wrong = Move("refs/heads/taken", None if expect_absence else head, head)
    with pytest.raises(LostRace):
        refs.move(git, (Move("refs/heads/new", None, other), wrong), "test")
    assert refs.read(git, "refs/heads/new", "refs/heads/taken") == {"refs/heads/taken": other}


@pytest.mark.parametrize("delete", [True, False])
def test_ref_that_is_gone_cannot_be_moved(git: Git, head: str, delete: bool) -> None:
    new = None if delete else git.text("commit-tree", "HEAD^{tree}", "-m", "x")
    with pytest.raises(LostRace):
        refs.move(git, (Move("refs/heads/gone", head, new),), "test")


def test_lock_left_behind_is_not_a_race(repository: Path, git: Git, head: str) -> None:
    (repository / ".git/refs/heads/new.lock").touch()
    with pytest.raises(RepositoryError, match=r"new\.lock': File exists"):
        refs.move(git, (Move("refs/heads/new", None, head),), "test")


def test_name_in_the_way_is_not_a_race(git: Git, head: str) -> None:
    with pytest.raises(RepositoryError, match="cannot create"):
        refs.move(git, (Move("refs/heads/main/x", None, head),), "test")


def test_reflog_says_who_moved_a_ref(git: Git, head: str) -> None:
    refs.move(git, (Move("refs/heads/new", None, head),), "record a step")
    assert git.text("reflog", "new").endswith("skillopt-ci: record a step")
