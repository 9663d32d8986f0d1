import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repositories import Bench

from skillopt_ci.errors import RepositoryError
from skillopt_ci.git.history import Commit, message, parents
from skillopt_ci.git.objects import merge_trees


def test_log_is_newest_first_with_parents_and_trailers(bench, repository):
    ledger = bench.open(repository)
    root = ledger.sync().base
    commit = ledger.commit((root,), root, {}, "Do\n\nwords\n\nSkillopt-Step: 1\n")
    newest, oldest = ledger.log(commit)
    assert (newest.sha, newest.parents, oldest.parents) == (commit, (root,), ())
    assert (newest.author, newest.trailers) == ("Ada <ada@example.org>", {"Skillopt-Step": "1"})
    assert newest.time.startswith("20")


def test_parents_are_told_first_one_first(bench, repository):
    ledger, base = bench.open(repository), bench.git(repository, "rev-parse", "main")
    tip = bench.train(ledger, "one\n")
    assert parents(ledger.git, tip)[0] == base
    assert len(parents(ledger.git, tip)) == 2
    assert parents(ledger.git, base) == ()


def test_log_stops_at_since_and_limit(bench, repository):
    ledger = bench.open(repository)
    root, first = ledger.sync().base, bench.train(ledger, "one\n")
    second = bench.train(ledger, "two\n")
    subjects = [commit.message.partition("\n")[0] for commit in ledger.log(f"{first}..{second}")]
    assert subjects == ["Merge two", "Write two"]
    assert [commit.sha for commit in ledger.log(second, first_parent=True, limit=1)] == [second]
    assert ledger.log(f"{second}..{root}") == ()


def test_empty_message_is_a_commit_too(bench, repository):
    bench.git(repository, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", "")
    assert bench.open(repository).log("HEAD")[0].message == ""


def test_ancestry_and_merge_base(bench, repository):
    ledger = bench.open(repository)
    root = ledger.sync().base
    one, two = bench.step(ledger, "one\n"), bench.step(ledger, "two\n")
    orphan = ledger.commit((), root, {}, "Orphan")
    assert ledger.is_ancestor(root, one)
    assert ledger.is_ancestor(one, one)
    assert not ledger.is_ancestor(one, two)
    assert ledger.merge_base(one, two) == root
    assert ledger.merge_base(one, orphan) is None


def test_unknown_commit_is_an_error_not_a_no(bench, repository):
    with pytest.raises(RepositoryError, match="merge-base failed"):
        bench.open(repository).is_ancestor("0" * 40, "HEAD")


def test_changed_files_below_paths(bench, repository):
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


def test_shallow_clone_is_deepened_until_it_is_clear(bench, shallow):
    position = bench.open(shallow).sync()
    assert position.root not in (None, position.base, position.tip)


def test_shallow_clone_can_train(bench, shallow, origin):
    ledger, tip = bench.trained(shallow, "two\n")
    assert bench.ref(origin, "refs/heads/skillopt/demo") == tip
    assert merge_trees(ledger.git, tip, ledger.sync().base, ()).conflicts == ()


def test_shallow_clone_stays_shallow_where_nothing_is_unclear(bench, elsewhere, origin):
    bench.publish(elsewhere, "file", "a")
    shallow = bench.clone(origin, "shallow", "--depth=1")
    bench.train(bench.open(shallow), "one\n")
    assert bench.git(shallow, "rev-parse", "--is-shallow-repository") == "true"


def test_shallow_clone_that_cannot_be_deepened_says_so(bench, shallow):
    bench.open(shallow).git.run("fetch", "--quiet", "origin", "skillopt/demo:skillopt/demo")
    with pytest.raises(RepositoryError, match="too shallow"):
        bench.open(shallow, remote=None).sync()


FACTS = {"Skillopt-Step": "3", "Skillopt-Action": "accept"}


def trailers_by_git(text: str) -> dict[str, str]:
    parse = ["git", "interpret-trailers", "--parse"]
    done = subprocess.run(parse, input=text.encode(), capture_output=True, check=True)
    pairs = (line.partition(":") for line in done.stdout.decode().splitlines())
    return {key: value.strip() for key, _, value in pairs}


def trailers_of(text: str) -> dict[str, str]:
    return Commit("", (), "", "", text).trailers


def test_message_is_subject_body_trailers():
    whole = "Ask first\n\nBecause.\n\nSkillopt-Step: 3\nSkillopt-Action: accept\n"
    assert message("Ask first", "Because.", FACTS) == whole
    assert message("Ask first", " \n", {"A": "1"}) == "Ask first\n\nA: 1\n"


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        ("word " * 40, "word " * 13 + "word…"),
        ("x" * 100, "x" * 71 + "…"),
        ("# Ask", "Ask"),
        ("--- Ask", "Ask"),
        ("; Ask", "Ask"),
        (" \n#", "Update the skill"),
    ],
)
def test_subject_is_one_line_of_words(subject, written):
    assert message(subject, "", FACTS).splitlines()[0] == written


def test_body_is_wrapped_and_list_items_hang():
    body = message("S", "- " + "word " * 30, FACTS).split("\n\n")[1].splitlines()
    assert all(len(line) <= 76 for line in body)
    assert body[1].startswith("  word")


@pytest.mark.parametrize("line", ["# gone", "---", "--- a", "Skillopt-Step: 9", "Signed-off-by: E"])
def test_line_that_means_something_to_git_is_defused(line):
    text = message("S", f"{line}\n\n{line}", FACTS)
    assert line not in text.splitlines()
    assert trailers_by_git(text) == FACTS


def test_mentions_and_issue_references_do_not_survive():
    text = message("Fixes #12 for @ada", "GH-3, x/y#4, ada@example.org", FACTS)
    assert not any(mark in text for mark in ("#1", "@ada", "GH-3", "#4"))
    assert "ada@example.org" in text


def test_terminal_and_direction_controls_are_dropped():
    text = message("a\x1b[31mb", "c\u202ed\x00e", FACTS)
    assert not any(mark in text for mark in "\x1b\u202e\x00")
    text = message("S", "", {"Skillopt-Run": "a\nSkillopt-Step: 9"})
    assert trailers_of(text) == {"Skillopt-Run": "a Skillopt-Step: 9"}


@pytest.mark.parametrize("text", ["", "A: 1", "A: 1\n", "Subject\n\nplain words"])
def test_text_without_trailers_has_none(text):
    assert trailers_of(text) == {}


def test_folded_trailer_is_unfolded():
    assert trailers_of("S\n\nA: one\n  two\nB: 3\n") == {"A": "one two", "B": "3"}


@settings(max_examples=40)
@given(subject=st.text(max_size=90), body=st.text(max_size=300), value=st.text(max_size=30))
def test_no_text_forges_a_trailer(subject, body, value):
    text = message(subject, body, {**FACTS, "Skillopt-Note": value})
    expected = {**FACTS, "Skillopt-Note": trailers_of(text)["Skillopt-Note"]}
    assert trailers_by_git(text) == trailers_of(text) == expected
    assert len(text.split("\n")[0]) <= 72


@given(st.lists(st.sampled_from(["#", "---", "A-b: 1", "x", "", " ", "\n", "\r", "\x85"])))
def test_body_never_starts_a_line_with_a_meaning(parts):
    body = message("S", "\n".join(parts), FACTS).split("\n")[1:-3]
    assert not any(line.startswith(("#", "---", "A-b:")) for line in body)
