from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import InfrastructureError, RepositoryError

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


def test_repository_is_found_from_a_folder_or_file_in_it(bench: Bench, repository: Path) -> None:
    for start in (repository, repository / "skills", repository / bench.skill):
        assert bench.open(start).root == repository


def test_folder_with_odd_characters_is_taken_literally(bench: Bench, repository: Path) -> None:
    odd = repository.rename(repository.with_name("a $HOME ~ ü"))
    assert bench.open(odd).read("HEAD", bench.skill) == "# Skill\n"


def test_folder_outside_a_repository_is_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="not inside a git repository"):
        bench.open(tmp_path)


def test_folder_that_does_not_exist_is_refused(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="no such folder"):
        bench.open(tmp_path / "a" / "b")


def test_bare_repository_is_refused(bench: Bench, origin: Path, repository: Path) -> None:
    for folder in (origin, repository / ".git"):
        with pytest.raises(RepositoryError, match=r"bare or this is its \.git folder"):
            bench.open(folder)


def test_repository_without_commits_is_refused(bench: Bench, tmp_path: Path) -> None:
    bench.git(tmp_path, "init", "--quiet", "new")
    with pytest.raises(RepositoryError, match="has no commit yet"):
        bench.open(tmp_path / "new")


def test_base_is_the_configured_branch(bench: Bench, here: Path) -> None:
    assert bench.open(here, base="release/2").base == "release/2"


def test_base_is_the_remote_s_default(bench: Bench, here: Path) -> None:
    bench.git(here, "switch", "--quiet", "-c", "feature/x")
    assert bench.open(here).base == "main"


def test_remote_is_asked_for_its_default(bench: Bench, here: Path) -> None:
    bench.git(here, "symbolic-ref", "--delete", "refs/remotes/origin/HEAD")
    bench.git(here, "checkout", "--quiet", "--detach")
    assert bench.open(here).base == "main"


def test_base_is_not_guessed_when_the_remote_cannot_be_asked(
    bench: Bench, here: Path, origin: Path
) -> None:
    bench.git(here, "symbolic-ref", "--delete", "refs/remotes/origin/HEAD")
    origin.rename(origin.with_name("moved.git"))
    with pytest.raises(InfrastructureError, match="cannot read from 'origin'"):
        bench.open(here)


def test_remote_without_a_default_leaves_it_to_head(bench: Bench, repository: Path) -> None:
    bench.git(repository.parent, "init", "--quiet", "--bare", "empty.git")
    bench.git(repository, "remote", "add", "origin", "../empty.git")
    assert bench.open(repository).base == "main"


def test_without_a_remote_base_is_the_branch_checked_out(bench: Bench, repository: Path) -> None:
    bench.git(repository, "switch", "--quiet", "-c", "feature/x")
    assert bench.open(repository).base == "feature/x"


def test_detached_head_without_remote_asks_for_the_base(bench: Bench, repository: Path) -> None:
    bench.git(repository, "checkout", "--quiet", "--detach")
    with pytest.raises(RepositoryError, match=r"which branch is the base[\s\S]*git\.base"):
        bench.open(repository)


def test_folder_of_someone_else_names_the_remedy(
    bench: Bench, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(RepositoryError, match=r"--add safe\.directory"):
        bench.open(repository)
