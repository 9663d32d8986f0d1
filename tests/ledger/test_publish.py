"""Moving branches: forward only, both or none, never over somebody else's work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import LostRace, PushRefused, RepositoryError

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


SKILLS = "refs/heads/skillopt/demo"
CANDIDATE = "refs/heads/skillopt-candidate/demo"


def test_candidate_is_pushed_before_it_is_measured(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    assert bench.ref(origin, CANDIDATE) == bench.ref(here, CANDIDATE) == candidate


def test_proposing_again_changes_nothing(bench: Bench, here: Path) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    ledger.propose(candidate)
    assert ledger.sync().candidate == candidate


def test_second_candidate_loses(bench: Bench, here: Path, elsewhere: Path, origin: Path) -> None:
    first, second = bench.open(here), bench.open(elsewhere)
    mine, theirs = bench.step(first, "mine\n"), bench.step(second, "theirs\n")
    second.propose(theirs)
    with pytest.raises(LostRace, match="another run moved"):
        first.propose(mine)
    assert bench.ref(origin, CANDIDATE) == theirs
    assert bench.ref(here, CANDIDATE) == ""


def test_second_local_candidate_loses(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    ledger.propose(bench.step(ledger, "one\n"))
    with pytest.raises(LostRace, match="another step is in flight"):
        ledger.propose(bench.step(ledger, "two\n"))


def test_withdrawn_candidate_is_gone_everywhere(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    ledger.withdraw(candidate)
    ledger.withdraw(candidate)
    assert bench.ref(origin, CANDIDATE) == bench.ref(here, CANDIDATE) == ""
    assert ledger.sync().candidate is None


def test_only_the_candidate_named_is_withdrawn(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    with pytest.raises(LostRace):
        ledger.withdraw(bench.step(ledger, "two\n"))
    assert bench.ref(origin, CANDIDATE) == candidate


def test_advance_that_is_no_fast_forward_is_a_defect(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    tip = bench.train(ledger, "one\n")
    with pytest.raises(ValueError, match="no fast-forward"):
        ledger.advance(tip, ledger.sync().base)


@pytest.mark.parametrize("first_step", [True, False])
def test_run_that_got_there_first_is_never_overwritten(
    bench: Bench, here: Path, elsewhere: Path, origin: Path, first_step: bool
) -> None:
    mine = bench.open(here)
    if not first_step:
        bench.train(mine, "zero\n")
    position = mine.sync()
    candidate = bench.step(mine, "mine\n")
    theirs = bench.train(bench.open(elsewhere), "theirs\n")
    with pytest.raises(LostRace):
        mine.advance(position.tip, candidate)
    assert bench.ref(origin, SKILLS) == theirs
    assert mine.sync().tip == theirs


def test_fetch_of_the_user_does_not_weaken_the_guard(
    bench: Bench, here: Path, elsewhere: Path, origin: Path
) -> None:
    mine = bench.open(here)
    candidate = bench.step(mine, "mine\n")
    theirs = bench.train(bench.open(elsewhere), "theirs\n")
    bench.git(here, "fetch", "--quiet")
    with pytest.raises(LostRace, match="by now"):
        mine.advance(None, candidate)
    assert bench.ref(origin, SKILLS) == theirs


def test_local_race_is_lost_too(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    late = bench.step(ledger, "late\n")
    bench.train(ledger, "early\n")
    with pytest.raises(LostRace):
        ledger.advance(None, late)


def test_branch_deleted_meanwhile_is_not_recreated(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    tip = bench.train(ledger, "one\n")
    commit = bench.step(ledger, "two\n")
    bench.git(origin, "update-ref", "-d", SKILLS)
    with pytest.raises(LostRace):
        ledger.advance(tip, commit)
    assert bench.ref(origin, SKILLS) == ""


def test_server_refusing_one_ref_moves_neither(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    bench.hook(origin, "update", 'case "$1" in *candidate*) echo "candidates stay"; exit 1;; esac')
    with pytest.raises(PushRefused, match="candidates stay"):
        ledger.advance(None, candidate, candidate)
    assert (bench.ref(origin, SKILLS), bench.ref(origin, CANDIDATE)) == ("", candidate)
    assert (bench.ref(here, SKILLS), bench.ref(here, CANDIDATE)) == ("", candidate)


def test_local_hook_that_refuses_is_named(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    candidate = bench.step(ledger, "one\n")
    bench.hook(repository / ".git", "reference-transaction", "echo frozen >&2; exit 1")
    with pytest.raises(PushRefused, match="reference-transaction hook refused"):
        ledger.propose(candidate)


def test_death_after_the_push_heals_with_the_next_sync(
    bench: Bench, here: Path, origin: Path
) -> None:
    ledger = bench.open(here)
    candidate = bench.step(ledger, "one\n")
    ledger.propose(candidate)
    frozen = bench.hook(here / ".git", "reference-transaction", "exit 1")
    with pytest.raises(PushRefused):
        ledger.advance(None, candidate, candidate)
    frozen.unlink()
    assert bench.ref(origin, SKILLS) == candidate
    assert bench.ref(here, SKILLS) == ""
    position = ledger.sync()
    assert (position.tip, position.candidate) == (candidate, None)
    assert (bench.ref(here, SKILLS), bench.ref(here, CANDIDATE)) == (candidate, "")


@pytest.mark.parametrize("branch", ["skillopt/demo", "skillopt-candidate/demo"])
def test_checked_out_branch_is_not_moved(bench: Bench, repository: Path, branch: str) -> None:
    bench.git(repository, "switch", "--quiet", "-c", branch)
    ledger = bench.open(repository, base="main")
    commit = bench.step(ledger, "one\n")
    with pytest.raises(RepositoryError, match="is checked out in"):
        ledger.advance(None, commit)
    with pytest.raises(RepositoryError, match="is checked out in"):
        ledger.propose(commit)


def test_unpushed_steps_are_pushed_with_the_next(bench: Bench, here: Path, origin: Path) -> None:
    bench.train(bench.open(here, remote=None), "offline\n")
    tip = bench.train(bench.open(here), "online\n")
    assert bench.ref(origin, SKILLS) == tip


def test_tags_and_other_branches_are_not_pushed(bench: Bench, here: Path, origin: Path) -> None:
    bench.git(here, "config", "push.followTags", "true")
    bench.git(here, "branch", "private")
    bench.git(here, "tag", "-a", "-m", "private", "v1")
    bench.train(bench.open(here), "one\n")
    refs = bench.git(origin, "for-each-ref", "--format=%(refname)").splitlines()
    assert refs == ["refs/heads/main", SKILLS]
