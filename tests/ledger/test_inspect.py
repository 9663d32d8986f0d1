from __future__ import annotations

import pytest

from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.inspect import newest, resolve, runs

FOLDER = ".skillopt/demo/state.json"


def test_without_a_skills_branch_the_base_counts(bench, repository):
    assert newest(bench.open(repository)) == bench.git(repository, "rev-parse", "main")


def test_the_skills_branch_goes_before_the_base(bench, repository):
    ledger = bench.open(repository)
    tip = bench.train(ledger, "one\n")
    bench.save(repository, "other.txt", "base moves on\n")
    assert newest(ledger) == tip


def test_the_branch_as_last_fetched_counts_where_it_is_ahead(bench, here, elsewhere):
    bench.train(bench.open(here), "one\n")
    tip = bench.train(bench.open(elsewhere), "two\n")
    bench.git(here, "fetch", "--quiet")
    assert newest(bench.open(here)) == tip


def test_unpushed_steps_count_where_they_are_ahead(bench, here):
    ledger = bench.open(here)
    bench.train(ledger, "one\n")
    tip = bench.train(bench.open(here, remote=None), "two\n")
    assert newest(ledger) == tip


def test_a_single_branch_clone_fetches_the_skills_branch(bench, here, origin):
    tip = bench.train(bench.open(here), "one\n")
    clone = bench.clone(origin, "small", "--depth=1", "--single-branch")
    assert newest(bench.open(clone)) == tip


def test_reading_moves_nothing_that_the_user_sees(bench, here):
    bench.train(bench.open(here), "one\n")
    before = bench.git(here, "for-each-ref"), bench.git(here, "status", "--porcelain=v2")
    newest(bench.open(here))
    assert (bench.git(here, "for-each-ref"), bench.git(here, "status", "--porcelain=v2")) == before


def test_a_base_that_is_not_there_is_named(bench, repository):
    with pytest.raises(RepositoryError, match="no branch 'trunk'"):
        newest(bench.open(repository, base="trunk"))


def test_a_name_resolves_to_a_commit_or_to_nothing(bench, repository):
    ledger = bench.open(repository)
    head = bench.git(repository, "rev-parse", "HEAD")
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
    bench.save(repository, FOLDER, "{}\n")
    bench.save(repository, ".skillopt/README.md", "read me\n")
    assert runs(repository) == ("demo",)


def test_a_clone_that_knows_of_no_run_asks_the_remote(bench, here, origin):
    bench.train(bench.open(here), "one\n")
    assert runs(bench.clone(origin, "small", "--depth=1", "--single-branch")) == ("demo",)
