from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import RepositoryError

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


def test_log_is_newest_first_with_parents_and_trailers(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    root = ledger.sync().base
    commit = ledger.commit((root,), root, {}, "Do\n\nwords\n\nSkillopt-Step: 1\n")
    newest, oldest = ledger.log(commit)
    assert (newest.sha, newest.parents, oldest.parents) == (commit, (root,), ())
    assert (newest.author, newest.trailers) == ("Ada <ada@example.org>", {"Skillopt-Step": "1"})
    assert newest.time.startswith("20")


def test_log_stops_at_since_and_limit(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    root = ledger.sync().base
    first = bench.train(ledger, "one\n")
    second = bench.train(ledger, "two\n")
    subjects = [commit.subject for commit in ledger.log(second, since=first)]
    assert subjects == ["Merge two", "Write two"]
    assert [commit.sha for commit in ledger.log(second, first_parent=True, limit=1)] == [second]
    assert ledger.log(root, since=second) == ()


def test_empty_message_is_a_commit_too(bench: Bench, repository: Path) -> None:
    bench.git(repository, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", "")
    assert bench.open(repository).log("HEAD")[0].message == ""


def test_ancestry_and_merge_base(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    root = ledger.sync().base
    one, two = bench.step(ledger, "one\n"), bench.step(ledger, "two\n")
    orphan = ledger.commit((), root, {}, "Orphan")
    assert ledger.is_ancestor(root, one)
    assert ledger.is_ancestor(one, one)
    assert not ledger.is_ancestor(one, two)
    assert ledger.merge_base(one, two) == root
    assert ledger.merge_base(one, orphan) is None


def test_unknown_commit_is_an_error_not_a_no(bench: Bench, repository: Path) -> None:
    with pytest.raises(RepositoryError, match="merge-base failed"):
        bench.open(repository).is_ancestor("0" * 40, "HEAD")


def test_changed_files_below_paths(bench: Bench, repository: Path) -> None:
    ledger = bench.open(repository)
    changes = {bench.skill: "one\n", "tasks/ä.jsonl": "{}\n", "tasks-old": "x"}
    commit = ledger.commit(("HEAD",), "HEAD", changes, "Change")
    assert ledger.changed_between("HEAD", commit, ("tasks",)) == ("tasks/ä.jsonl",)
    assert set(ledger.changed_between("HEAD", commit)) == set(changes)
    assert ledger.changed_between("HEAD", commit, ("nowhere",)) == ()


@pytest.fixture
def shallow(bench: Bench, here: Path, elsewhere: Path, origin: Path) -> Path:
    """A clone of depth 1, when the run began four commits of base ago."""
    bench.train(bench.open(here), "one\n")
    for text in "abcd":
        bench.save(elsewhere, "file", text)
    bench.git(elsewhere, "push", "--quiet", "origin", "main")
    return bench.clone(origin, "shallow", "--depth=1")


def test_shallow_clone_is_deepened_until_it_is_clear(bench: Bench, shallow: Path) -> None:
    position = bench.open(shallow).sync()
    assert position.tip is not None
    assert not position.base_in_tip
    assert not position.tip_in_base


def test_shallow_clone_can_train(bench: Bench, shallow: Path, origin: Path) -> None:
    ledger = bench.open(shallow)
    tip = bench.train(ledger, "two\n")
    assert bench.ref(origin, "refs/heads/skillopt/demo") == tip
    assert ledger.take_in_base(tip, ledger.sync().base, ()).conflicts == ()


def test_shallow_clone_stays_shallow_where_nothing_is_unclear(
    bench: Bench, elsewhere: Path, origin: Path
) -> None:
    bench.publish(elsewhere, "file", "a")
    shallow = bench.clone(origin, "shallow", "--depth=1")
    bench.train(bench.open(shallow), "one\n")
    assert bench.git(shallow, "rev-parse", "--is-shallow-repository") == "true"


def test_shallow_clone_that_cannot_be_deepened_says_so(bench: Bench, shallow: Path) -> None:
    bench.open(shallow).git.run("fetch", "--quiet", "origin", "skillopt/demo:skillopt/demo")
    with pytest.raises(RepositoryError, match="too shallow"):
        bench.open(shallow, remote=None).sync()
