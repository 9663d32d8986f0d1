from pathlib import Path

import pytest
from repositories import Bench

from skillopt_ci.git.objects import merge_trees
from skillopt_ci.ledger.ledger import Ledger

LINES = "".join(f"{number}\n" for number in range(20))
RUN = ".skillopt/demo"


@pytest.fixture
def ledger(bench: Bench, repository: Path) -> Ledger:
    bench.save(repository, "list.txt", LINES)
    return bench.open(repository)


def commit(ledger: Ledger, changes: dict[str, str | None], parent: str = "") -> str:
    head = parent or ledger.sync().base
    return ledger.commit((head,), head, changes, "Change")


def test_changes_of_both_sides_are_there(ledger):
    ours = commit(ledger, {"skills/SKILL.md": "trained\n", "list.txt": LINES + "ours\n"})
    theirs = commit(ledger, {"list.txt": "theirs\n" + LINES, "new.txt": "n", "skills/a.md": "a"})
    taken = merge_trees(ledger.git, ours, theirs, ())
    assert taken.tree is not None
    merged = ledger.commit((ours, theirs), taken.tree, {}, "Take in main")
    assert ledger.read(merged, "list.txt") == "theirs\n" + LINES + "ours\n"
    assert ledger.read(merged, "skills/SKILL.md") == "trained\n"
    assert (ledger.read(merged, "new.txt"), ledger.read(merged, "skills/a.md")) == ("n", "a")
    assert ledger.is_ancestor(theirs, merged)


@pytest.mark.parametrize(
    ("ours", "theirs", "conflicts"),
    [
        ({"skills/SKILL.md": "a\n"}, {"skills/SKILL.md": "b\n"}, ("skills/SKILL.md",)),
        ({"skills/SKILL.md": "a\n"}, {"skills/SKILL.md": None}, ("skills/SKILL.md",)),
        ({"new": "a\n"}, {"new": "b\n"}, ("new",)),
        ({"list.txt": "\0a"}, {"list.txt": "\0b"}, ("list.txt",)),
        ({"new": "a\n"}, {"new/file": "b\n"}, ("new",)),
        ({"new": "a\n"}, {"new": "a\n"}, ()),
        ({"list.txt": None}, {"list.txt": None}, ()),
        ({"list.txt": None}, {"new": "b\n"}, ()),
    ],
)
def test_disagreement_is_a_conflict(ledger, ours, theirs, conflicts):
    taken = merge_trees(ledger.git, commit(ledger, ours), commit(ledger, theirs), ())
    assert taken.conflicts == conflicts
    assert (taken.tree is None) == bool(conflicts)


def test_kept_paths_stay_ours_whatever_base_did(ledger):
    start = commit(ledger, {f"{RUN}/a": "0\n", f"{RUN}/b": "0\n", f"{RUN}/c": "0\n"})
    ours = commit(ledger, {f"{RUN}/a": "1\n", f"{RUN}/new": "1\n"}, start)
    changes = {f"{RUN}/a": "2\n", f"{RUN}/b": "2\n", f"{RUN}/c": None, f"{RUN}/theirs": "", "x": ""}
    theirs = commit(ledger, changes, start)
    taken = merge_trees(ledger.git, ours, theirs, (RUN,))
    assert taken.tree is not None
    assert ledger.changed_between(taken.tree, ours, (RUN,)) == ()
    assert ledger.changed_between(ours, taken.tree) == ("x",)


def test_modes_links_and_submodules_survive(bench, repository):
    (repository / "run.sh").write_text(LINES)
    (repository / "link").symlink_to("run.sh")
    head = bench.git(repository, "rev-parse", "HEAD")
    bench.git(repository, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    bench.git(repository, "add", "run.sh", "link")
    bench.git(repository, "commit", "--quiet", "-m", "Add kinds")
    bench.git(repository, "update-index", "--chmod=+x", "run.sh")
    ledger = bench.open(repository)
    ours = commit(ledger, {"run.sh": LINES + "ours\n"})
    bench.git(repository, "commit", "--quiet", "-m", "Make it run")
    taken = merge_trees(ledger.git, ours, commit(ledger, {"run.sh": "theirs\n" + LINES}), ())
    listing = bench.git(repository, "ls-tree", f"{taken.tree}").splitlines()
    kinds = {line.split("\t")[1]: line.split(" ")[0] for line in listing}
    assert kinds == {"link": "120000", "module": "160000", "run.sh": "100755", "skills": "040000"}


def test_submodule_moved_by_both_is_a_conflict(bench, repository):
    tips = [bench.save(repository, "file", text) for text in "abc"]
    sides = []
    for tip in tips:
        bench.git(repository, "update-index", "--add", "--cacheinfo", f"160000,{tip},module")
        bench.git(repository, "commit", "--quiet", "-m", "Move module")
        sides.append(bench.git(repository, "rev-parse", "HEAD"))
    ledger = bench.open(repository)
    ours = ledger.commit((sides[0],), sides[1], {}, "Ours")
    theirs = ledger.commit((sides[0],), sides[2], {}, "Theirs")
    assert merge_trees(ledger.git, ours, theirs, ()).conflicts == ("module",)
