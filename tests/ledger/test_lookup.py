from typing import Any

import pytest

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.ledger import newest, resolve, runs
from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.ledger.summary import timeline


def test_without_a_skills_branch_the_base_counts(bench, repository):
    assert newest(bench.open(repository)) == bench.git(repository, "rev-parse", "main")


def test_the_skills_branch_goes_before_the_base(bench, repository):
    ledger, tip = bench.trained(repository, "one\n")
    bench.save(repository, "other.txt", "base moves on\n")
    assert newest(ledger) == tip


def test_the_branch_as_last_fetched_counts_where_it_is_ahead(bench, here, elsewhere):
    bench.train(bench.open(here), "one\n")
    tip = bench.train(bench.open(elsewhere), "two\n")
    bench.git(here, "fetch", "--quiet")
    assert newest(bench.open(here)) == tip


def test_unpushed_steps_count_where_they_are_ahead(bench, here):
    ledger, _ = bench.trained(here, "one\n")
    tip = bench.train(bench.open(here, remote=None), "two\n")
    assert newest(ledger) == tip


def test_a_single_branch_clone_fetches_the_skills_branch(bench, here, origin):
    tip = bench.train(bench.open(here), "one\n")
    assert newest(bench.open(bench.clone(origin, "small", "--depth=1", "--single-branch"))) == tip


def test_reading_moves_nothing_that_the_user_sees(bench, here):
    bench.train(bench.open(here), "one\n")
    before = bench.git(here, "for-each-ref"), bench.git(here, "status", "--porcelain=v2")
    newest(bench.open(here))
    assert (bench.git(here, "for-each-ref"), bench.git(here, "status", "--porcelain=v2")) == before


def test_a_base_that_is_not_there_is_named(bench, repository):
    with pytest.raises(RepositoryError, match="no branch 'trunk'"):
        newest(bench.open(repository, base="trunk"))


def test_a_name_resolves_to_a_commit_or_to_nothing(bench, repository):
    ledger, head = bench.open(repository), bench.git(repository, "rev-parse", "HEAD")
    assert resolve(ledger, "main") == resolve(ledger, head[:10]) == head
    assert resolve(ledger, "no-such-branch") is None
    assert resolve(ledger, "--all") is None


def test_runs_are_known_by_their_branches_here_and_there(bench, here, elsewhere):
    assert runs(here) == ()
    bench.train(bench.open(elsewhere), "one\n")
    bench.git(here, "fetch", "--quiet")
    bench.git(here, "branch", "skillopt/mine")
    assert runs(here) == ("demo", "mine")


def test_a_merged_run_is_known_by_its_folder(bench, repository):
    bench.save(repository, ".skillopt/demo/state.json", "{}\n")
    bench.save(repository, ".skillopt/README.md", "read me\n")
    assert runs(repository) == ("demo",)


def test_a_clone_that_knows_of_no_run_asks_the_remote(bench, here, origin):
    bench.train(bench.open(here), "one\n")
    assert runs(bench.clone(origin, "small", "--depth=1", "--single-branch")) == ("demo",)


FACTS = ("kind", "step", "action", "score_after", "best_score", "skill_sha256", "epoch")


def entry(*facts: Any) -> HistoryEntry:
    return HistoryEntry(**{"epoch": 1, **dict(zip(FACTS, facts, strict=False))})


START = entry("start", 0, "start", 0.0, 0.0, "a")
BEST = entry("step", 1, "accept_new_best", 0.5, 0.5, "b")
BEST_IS_1 = ("step_0001", 0.5, 1)


def test_a_run_begins_with_the_initial_skill():
    (moment,) = timeline([START])
    found = (moment.current_score, moment.current_origin, moment.best_step)
    assert found == (0.0, "initial_skill", 0)


@pytest.mark.parametrize(
    ("event", "current", "best"),
    [
        (("step", 1, "reject", 0.9, 0.5, "b"), ("step_0001", 0.5), BEST_IS_1),
        (("step", 2, "accept", 0.4, 0.5, "c"), ("step_0002", 0.4), BEST_IS_1),
        (("step", 2, "force_accept", 0.7, 0.7, "c"), ("step_0002", 0.7), ("step_0002", 0.7, 2)),
        (("slow_update", 1, "accept", 0.5, 0.5, "c", 2), ("slow_update_epoch_02", 0.5), BEST_IS_1),
        (
            ("slow_update", 1, "accept", 0.5, 0.5, "c"),
            ("slow_update_placeholder_epoch_01", 0.5),
            BEST_IS_1,
        ),
        (("measure", 3, "measure", 0.6, 0.6, "b"), ("step_0001", 0.6), ("step_0001", 0.6, 1)),
        (("measure", 1, "measure", 0.3, 0.5, "c"), ("edited_by_hand", 0.3), BEST_IS_1),
    ],
)
def test_what_is_current_and_best_after_a_new_best_and_an_event(event, current, best):
    *_, before, moment = timeline([START, BEST, entry(*event)])
    assert (before.current_origin, before.best_origin) == ("step_0001", "step_0001")
    assert (moment.current_origin, moment.current_score) == current
    assert (moment.best_origin, moment.best_score, moment.best_step) == best


def test_a_promoted_skill_is_the_best_one_until_it_is_taken_back():
    accepted = entry("step", 2, "accept", 0.5, 0.5, "c")
    *_, moment = timeline([START, BEST, accepted, entry("finish", 2, "promote", 0.5, 0.5, "c")])
    assert moment.best_origin == "step_0002"
    taken = entry("revert", 1, "revert", None, 0.5, "b")
    *_, moment = timeline([START, BEST, taken, entry("measure", 1, "measure", 0.3, 0.3, "c")])
    assert (moment.best_origin, moment.best_score) == ("edited_by_hand", 0.3)
