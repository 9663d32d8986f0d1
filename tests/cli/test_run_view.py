"""Runs that were really trained: where their steps are in git."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.read import open_reader, view
from skillopt_ci.report.view import RunView, StepPlace

if TYPE_CHECKING:
    from tests.conftest import Checkout

BRANCH = "skillopt/demo"


def seen(checkout: Checkout) -> RunView:
    return view(open_reader(Globals({}, checkout.folder)))


@pytest.fixture
def trained(checkout: Checkout) -> Checkout:
    """A run with one merged and one reverted step."""
    checkout.step()
    checkout.step()
    return checkout


def test_a_merged_step_is_a_merge_of_its_candidate(trained: Checkout) -> None:
    merge, candidate = trained.git("rev-parse", f"{BRANCH}~2", f"{BRANCH}~2^2").split()
    place = seen(trained).place(1)
    assert (place.verdict, place.candidate) == (merge, candidate)


def test_a_reverted_step_is_a_revert_on_top_of_its_candidate(trained: Checkout) -> None:
    revert, candidate = trained.git("rev-parse", BRANCH, f"{BRANCH}^").split()
    place = seen(trained).place(2)
    assert (place.verdict, place.candidate) == (revert, candidate)
    assert place.seconds is not None


def test_the_evidence_of_all_steps_is_there(trained: Checkout) -> None:
    run = seen(trained)
    assert [record.step for record in run.steps] == [1, 2]
    assert (run.base, run.commit) == ("main", trained.ref(BRANCH))


def test_before_a_merge_base_has_nothing_of_the_run(trained: Checkout) -> None:
    run = seen(trained)
    assert (run.base_events, run.improved) == (0, True)


def test_after_a_merge_nothing_is_left_to_propose(trained: Checkout) -> None:
    trained.git("update-ref", "refs/heads/main", trained.ref(BRANCH))
    run = seen(trained)
    assert (run.base_events, run.improved) == (3, False)
    assert run.place(1) != StepPlace()


def test_after_a_squash_the_steps_are_told_without_their_commits(trained: Checkout) -> None:
    tree = trained.git("rev-parse", f"{BRANCH}^{{tree}}")
    squashed = trained.git("commit-tree", "-p", "main", "-m", "Squashed", tree)
    trained.git("update-ref", "refs/heads/main", squashed)
    trained.git("branch", "-D", BRANCH)
    run = seen(trained)
    assert [record.step for record in run.steps] == [1, 2]
    assert run.place(1) == StepPlace()


def test_a_step_of_another_run_is_not_taken_for_one_of_this(trained: Checkout) -> None:
    text = trained.git("log", "-1", "--format=%B", BRANCH).replace(
        seen(trained).state.current.sha256, "0" * 64
    )
    forged = trained.git("commit-tree", "-p", BRANCH, "-m", text, f"{BRANCH}^{{tree}}")
    trained.git("update-ref", f"refs/heads/{BRANCH}", forged)
    assert seen(trained).place(2).verdict != forged


def test_ends_of_epochs_have_a_place_of_their_own(checkout: Checkout) -> None:
    for _ in range(2):
        checkout.step()
    ended = checkout.end_epoch()
    assert ended is not None
    run = seen(checkout)
    assert run.place(1, "slow_update").verdict == ended.commit
    assert [record.epoch for record in run.epochs] == [1]
