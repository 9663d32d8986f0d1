"""What would fail when a step is recorded fails before it is begun."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import PushRefused, RepositoryError

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


def check(bench: Bench, folder: Path) -> None:
    ledger = bench.open(folder, base="main")
    ledger.preflight(ledger.sync())


def test_good_repository_passes_and_nothing_is_pushed(
    bench: Bench, here: Path, origin: Path
) -> None:
    before = bench.git(origin, "for-each-ref")
    check(bench, here)
    assert bench.git(origin, "for-each-ref") == before


def test_step_in_flight_passes_and_stays(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    before = bench.git(origin, "for-each-ref")
    assert candidate in before
    check(bench, here)
    assert bench.git(origin, "for-each-ref") == before


def test_missing_identity_is_found(bench: Bench, here: Path, git_config: Path) -> None:
    git_config.write_text("")
    with pytest.raises(RepositoryError, match="who is committing"):
        check(bench, here)


def test_signing_that_fails_is_found(bench: Bench, here: Path) -> None:
    bench.git(here, "config", "commit.gpgSign", "true")
    bench.git(here, "config", "gpg.program", "false")
    with pytest.raises(RepositoryError, match="gpg failed"):
        check(bench, here)


def test_checked_out_skills_branch_is_found_in_any_worktree(bench: Bench, here: Path) -> None:
    bench.git(here, "worktree", "add", "--quiet", "-b", "skillopt/demo", "../linked")
    with pytest.raises(RepositoryError, match=r"checked out in .*/linked[\s\S]*switch main"):
        check(bench, here)


def test_removed_worktree_does_not_count(bench: Bench, here: Path) -> None:
    bench.git(here, "worktree", "add", "--quiet", "-b", "skillopt/demo", "../linked")
    with pytest.raises(RepositoryError):
        check(bench, here)
    (here.parent / "linked").rename(here.parent / "gone")
    check(bench, here)
    assert "prunable" in bench.git(here, "worktree", "list", "--porcelain")


@pytest.mark.parametrize("name", ["skillopt", "skillopt-candidate", "skillopt/demo/x"])
def test_branch_in_the_way_is_found(bench: Bench, repository: Path, name: str) -> None:
    bench.git(repository, "branch", name)
    with pytest.raises(RepositoryError, match=f"branch '{name}' in this repository is in the way"):
        check(bench, repository)


def test_branch_in_the_way_on_the_remote_is_found(bench: Bench, here: Path, origin: Path) -> None:
    bench.git(origin, "branch", "skillopt")
    with pytest.raises(RepositoryError, match="branch 'skillopt' in origin is in the way"):
        check(bench, here)


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (401, "does not accept our credentials"),
        (403, "read but not written"),
        (404, "there is no repository"),
        (503, "the network or the server failed"),
    ],
)
def test_remote_that_cannot_be_pushed_to_is_found(
    bench: Bench, here: Path, refusing_server: str, status: int, meaning: str
) -> None:
    bench.git(here, "config", "remote.origin.pushUrl", f"{refusing_server}/{status}/repo.git")
    with pytest.raises(PushRefused, match=meaning):
        check(bench, here)


def test_unreachable_remote_is_the_network_s_fault(bench: Bench, here: Path) -> None:
    bench.git(here, "config", "remote.origin.pushUrl", "http://127.0.0.1:9/repo.git")
    with pytest.raises(PushRefused, match="the network or the server failed"):
        check(bench, here)


def test_server_without_atomic_pushes_is_found(bench: Bench, here: Path, origin: Path) -> None:
    bench.git(origin, "config", "receive.advertiseAtomic", "false")
    with pytest.raises(PushRefused, match="several refs as one transaction"):
        check(bench, here)


def test_pre_push_hook_that_refuses_is_found(bench: Bench, here: Path) -> None:
    bench.hook(here / ".git", "pre-push", "echo no pushes on Friday >&2; exit 1")
    with pytest.raises(PushRefused, match=r"own pre-push hook refused it\nno pushes on Friday"):
        check(bench, here)


def test_secrets_in_urls_are_not_shown(bench: Bench, here: Path, refusing_server: str) -> None:
    url = refusing_server.replace("://", "://me:s3cret@")
    bench.git(here, "config", "remote.origin.pushUrl", f"{url}/403/repo.git")
    with pytest.raises(PushRefused) as refused:
        check(bench, here)
    assert "s3cret" not in str(refused.value)


def test_skill_that_is_not_committed_is_found(bench: Bench, here: Path) -> None:
    (here / "draft.md").write_text("draft")
    ledger = bench.open(here)
    position = ledger.sync()
    ledger.preflight(position, (bench.skill,))
    with pytest.raises(RepositoryError, match=r"draft\.md is not committed on main\nCommit it"):
        ledger.preflight(position, ("draft.md",))
    with pytest.raises(RepositoryError, match=r"Did you mean 'skills/SKILL\.md'"):
        ledger.preflight(position, ("skill/SKILL.md",))
