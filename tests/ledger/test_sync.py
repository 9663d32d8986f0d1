"""Where a run stands, after all that people and other runs do to branches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import InfrastructureError, RepositoryError

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


SKILLS = "refs/heads/skillopt/demo"


def test_new_run_stands_on_base(bench: Bench, here: Path) -> None:
    position = bench.open(here).sync()
    assert position.head == position.base == bench.git(here, "rev-parse", "main")
    assert (position.tip, position.candidate) == (None, None)
    assert position.base_in_tip
    assert not position.tip_in_base


def test_other_clone_goes_on_where_the_first_stopped(
    bench: Bench, here: Path, elsewhere: Path
) -> None:
    first = bench.open(here)
    tip = bench.train(first, "one\n")
    candidate = bench.step(first, "two\n")
    first.propose(candidate)
    position = bench.open(elsewhere).sync()
    assert (position.tip, position.candidate) == (tip, candidate)
    assert bench.ref(elsewhere, SKILLS) == tip


def test_remote_base_counts_not_the_local_one(bench: Bench, here: Path, elsewhere: Path) -> None:
    moved = bench.publish(elsewhere, "tasks.jsonl", "{}\n")
    bench.save(here, "draft.md", "not pushed\n")
    assert bench.open(here).sync().base == moved


def test_base_that_moved_is_not_in_the_tip(bench: Bench, here: Path, elsewhere: Path) -> None:
    ledger = bench.open(here)
    bench.train(ledger, "one\n")
    bench.publish(elsewhere, "tasks.jsonl", "{}\n")
    assert not ledger.sync().base_in_tip


def test_push_of_a_reviewer_is_followed(bench: Bench, here: Path, elsewhere: Path) -> None:
    ledger = bench.open(here)
    bench.train(ledger, "one\n")
    bench.git(elsewhere, "fetch", "--quiet")
    bench.git(elsewhere, "switch", "--quiet", "skillopt/demo")
    fixed = bench.save(elsewhere, bench.skill, "one, mended\n")
    bench.git(elsewhere, "push", "--quiet")
    assert ledger.sync().tip == bench.ref(here, SKILLS) == fixed


def test_merged_branch_is_known_as_merged(bench: Bench, here: Path, elsewhere: Path) -> None:
    ledger = bench.open(here)
    bench.train(ledger, "one\n")
    bench.git(elsewhere, "pull", "--quiet", "--no-rebase", "origin", "skillopt/demo")
    bench.git(elsewhere, "push", "--quiet", "origin", "HEAD:main")
    assert ledger.sync().tip_in_base


def test_deleted_branch_starts_afresh_but_stays_reachable(
    bench: Bench, here: Path, origin: Path
) -> None:
    ledger = bench.open(here)
    tip = bench.train(ledger, "one\n")
    bench.git(origin, "update-ref", "-d", SKILLS)
    assert ledger.sync().tip is None
    assert bench.ref(here, SKILLS) == bench.ref(here, "refs/remotes/origin/skillopt/demo") == ""
    assert bench.ref(here, "refs/skillopt-ci/deleted/") == tip
    assert bench.ref(origin, SKILLS) != bench.train(ledger, "again\n")


def test_deleted_branch_with_unpushed_commits_asks(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    bench.train(ledger, "one\n")
    bench.train(bench.open(here, remote=None), "unpushed\n")
    bench.git(origin, "update-ref", "-d", SKILLS)
    with pytest.raises(RepositoryError, match="was deleted on origin"):
        ledger.sync()


def test_parted_histories_are_not_merged_silently(
    bench: Bench, here: Path, elsewhere: Path
) -> None:
    bench.train(bench.open(here, remote=None), "mine\n")
    bench.train(bench.open(elsewhere), "theirs\n")
    with pytest.raises(RepositoryError, match=r"has parted from origin: \w{12} here, \w{12} there"):
        bench.open(here).sync()


def test_unpushed_commits_count(bench: Bench, here: Path) -> None:
    tip = bench.train(bench.open(here, remote=None), "mine\n")
    assert bench.open(here).sync().tip == tip


def test_unpushed_candidate_counts_until_it_is_decided(bench: Bench, here: Path) -> None:
    offline = bench.open(here, remote=None)
    candidate = bench.step(offline, "one\n")
    offline.propose(candidate)
    assert bench.open(here).sync().candidate == candidate
    offline.advance(None, candidate)
    assert bench.open(here).sync().candidate is None


def test_candidate_dropped_elsewhere_is_dropped_here(
    bench: Bench, here: Path, elsewhere: Path
) -> None:
    ledger, other = bench.open(here), bench.open(elsewhere)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    other.sync()
    other.withdraw(candidate)
    assert ledger.sync().candidate is None
    assert bench.ref(here, "refs/heads/skillopt-candidate/") == ""


def test_checked_out_branch_is_read_but_left_alone(
    bench: Bench, here: Path, elsewhere: Path
) -> None:
    first = bench.train(bench.open(here), "one\n")
    bench.git(here, "switch", "--quiet", "skillopt/demo")
    second = bench.train(bench.open(elsewhere), "two\n")
    assert bench.open(here).sync().tip == second
    assert bench.ref(here, SKILLS) == first


def test_missing_base_suggests_the_nearest(bench: Bench, here: Path, repository: Path) -> None:
    with pytest.raises(RepositoryError, match=r"no branch 'mian' in origin[\s\S]*'main'"):
        bench.open(here, base="mian").sync()
    with pytest.raises(RepositoryError, match=r"no branch 'mian' in this repository[\s\S]*'main'"):
        bench.open(repository, base="mian").sync()


def test_single_branch_clone_finds_the_run(bench: Bench, here: Path, origin: Path) -> None:
    tip = bench.train(bench.open(here), "one\n")
    narrow = bench.clone(origin, "narrow", "--single-branch", "--branch", "main")
    assert bench.open(narrow).sync().tip == tip


def test_remote_that_is_gone_is_an_infrastructure_error(
    bench: Bench, here: Path, origin: Path
) -> None:
    ledger = bench.open(here)
    origin.rename(origin.with_name("moved.git"))
    with pytest.raises(InfrastructureError, match="cannot read from 'origin'"):
        ledger.sync()


def test_fetch_settings_of_the_user_do_not_widen_the_fetch(
    bench: Bench, here: Path, elsewhere: Path
) -> None:
    bench.git(elsewhere, "push", "--quiet", "origin", "HEAD:unrelated")
    bench.git(elsewhere, "tag", "v1")
    bench.git(elsewhere, "push", "--quiet", "origin", "v1")
    bench.git(here, "config", "remote.origin.tagOpt", "--tags")
    bench.open(here).sync()
    assert bench.ref(here, "refs/tags/") == bench.ref(here, "refs/remotes/origin/unrelated") == ""


def test_branch_that_vanishes_while_we_look_is_simply_gone(
    bench: Bench, here: Path, origin: Path
) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    bench.hook(
        here, "upload-pack",
        f'[ ! -e asked ] || git -C "{origin}" update-ref -d refs/heads/skillopt-candidate/demo\n'
        'touch asked; exec git-upload-pack "$@"',
    )  # fmt: skip
    bench.git(here, "config", "remote.origin.uploadPack", str(here / "hooks" / "upload-pack"))
    assert ledger.sync().candidate is None
