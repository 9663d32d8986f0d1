import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt_ci.errors import InfrastructureError, LostRace, RepositoryError
from skillopt_ci.git import refs
from skillopt_ci.git.process import Git
from skillopt_ci.git.refs import Move
from skillopt_ci.ledger.ledger import Ledger


def test_repository_is_found_from_a_folder_or_file_in_it(bench, repository):
    for start in (repository, repository / "skills", repository / bench.skill):
        assert bench.open(start).git.folder == repository


def test_folder_with_odd_characters_is_taken_literally(bench, repository):
    odd = repository.rename(repository.with_name("a $HOME ~ ü"))
    assert bench.open(odd).read("HEAD", bench.skill) == "# Skill\n"


def test_why_git_cannot_read_a_folder_is_told(bench, repository, tmp_path):
    with pytest.raises(RepositoryError, match="No such file or directory"):
        bench.open(tmp_path / "a" / "b")
    (tmp_path / ".git").write_text("gitdir: gone", encoding="utf-8")  # as of a worktree
    with pytest.raises(RepositoryError, match=r"fatal: not a git repository: (.*gone|\(null\))"):
        bench.open(tmp_path)
    (repository / ".git" / "config").write_text("[oops", encoding="utf-8")
    with pytest.raises(RepositoryError, match="fatal: bad config line"):
        bench.open(repository)


def test_bare_repository_is_refused(bench, origin, repository):
    for folder in (origin, repository / ".git"):
        with pytest.raises(RepositoryError, match=r"bare or this is its \.git folder"):
            bench.open(folder)


def test_repository_without_commits_is_refused(bench, tmp_path):
    bench.git(tmp_path, "init", "--quiet", "new")
    with pytest.raises(RepositoryError, match="has no commit yet"):
        bench.open(tmp_path / "new")


def test_base_is_the_configured_branch(bench, here):
    assert bench.open(here, base="release/2").base == "release/2"


def test_base_is_the_remote_s_default_known_or_asked_for_and_never_guessed(bench, here, origin):
    bench.git(here, "switch", "--quiet", "-c", "feature/x")
    away = origin.rename(origin.with_name("moved.git"))
    assert bench.open(here).base == "main"
    bench.git(here, "symbolic-ref", "--delete", "refs/remotes/origin/HEAD")
    with pytest.raises(InfrastructureError, match="cannot read from 'origin'"):
        bench.open(here)
    away.rename(origin)
    assert bench.open(here).base == "main"


def test_remote_without_a_default_leaves_it_to_head(bench, repository):
    bench.git(repository.parent, "init", "--quiet", "--bare", "empty.git")
    bench.git(repository, "remote", "add", "origin", "../empty.git")
    assert bench.open(repository).base == "main"


def test_without_a_remote_base_is_the_branch_checked_out(bench, repository):
    bench.git(repository, "switch", "--quiet", "-c", "feature/x")
    assert bench.open(repository).base == "feature/x"


def test_detached_head_without_remote_asks_for_the_base(bench, repository):
    bench.git(repository, "checkout", "--quiet", "--detach")
    with pytest.raises(RepositoryError, match=r"which branch is the base[\s\S]*git\.base"):
        bench.open(repository)


def test_folder_of_someone_else_names_the_remedy(bench, repository, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(RepositoryError, match=r"--add safe\.directory"):
        bench.open(repository)


@pytest.fixture
def git(repository: Path) -> Git:
    return Git(repository)


@pytest.fixture
def head(git: Git) -> str:
    return git.run("rev-parse", "HEAD").text


def test_names_of_a_run(git):
    names = Ledger(git, git.folder, "demo", "main", None).names
    branches = [refs.branch(name) for name in names]
    assert branches == ["main", "skillopt/demo", "skillopt-candidate/demo"]
    assert refs.tracking("up", names.skills) == "refs/remotes/up/skillopt/demo"


def test_read_returns_only_what_exists_by_its_whole_name(git, head):
    git.run("branch", "a/b")
    assert refs.read(git, "refs/heads/main", "refs/heads/a") == {"refs/heads/main": head}


@pytest.mark.parametrize("expect_absence", [True, False])
def test_moves_happen_together_or_not_at_all(bench, repository, git, head, expect_absence):
    other = bench.save(repository, "file", "x")
    git.run("branch", "taken")
    wrong = Move("refs/heads/taken", None if expect_absence else head, head)
    with pytest.raises(LostRace):
        refs.move(git, (Move("refs/heads/new", None, other), wrong), "test")
    assert refs.read(git, "refs/heads/new", "refs/heads/taken") == {"refs/heads/taken": other}


@pytest.mark.parametrize("delete", [True, False])
def test_ref_that_is_gone_cannot_be_moved(git, head, delete):
    new = None if delete else git.run("commit-tree", "HEAD^{tree}", "-m", "x").text
    with pytest.raises(LostRace):
        refs.move(git, (Move("refs/heads/gone", head, new),), "test")


def test_lock_left_behind_is_not_a_race(repository, git, head):
    (repository / ".git/refs/heads/new.lock").touch()
    with pytest.raises(RepositoryError, match=r"new\.lock': File exists"):
        refs.move(git, (Move("refs/heads/new", None, head),), "test")


def test_name_in_the_way_is_not_a_race(git, head):
    with pytest.raises(RepositoryError, match="cannot create"):
        refs.move(git, (Move("refs/heads/main/x", None, head),), "test")


def test_reflog_says_who_moved_a_ref(git, head):
    refs.move(git, (Move("refs/heads/new", None, head),), "record a step")
    assert git.run("reflog", "new").text.endswith("skillopt-ci: record a step")


SKILLS = "refs/heads/skillopt/demo"
#: What a loose ref holds after a power loss.
BROKEN = [b"", b"\0" * 41, b"\n", b"0123456789abcdef", b"not a commit\n", b"0" * 40 + b"\n"]


@pytest.mark.parametrize("content", BROKEN)
def test_broken_ref_is_neither_absent_nor_a_lost_race(bench, repository, content):
    ledger, _ = bench.trained(repository, "one\n")
    (repository / ".git" / SKILLS).write_bytes(content)
    with pytest.raises(RepositoryError, match=f"{SKILLS} is broken in this repository"):
        ledger.sync()


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_current_branch_is_not_one_without_commits(bench, repository, content):
    (repository / ".git/refs/heads/main").write_bytes(content)
    with pytest.raises(RepositoryError, match="refs/heads/main is broken in this repository"):
        bench.open(repository)


def test_move_of_a_broken_ref_is_not_a_lost_race(repository, git, head):
    (repository / ".git/refs/heads/new").touch()
    with pytest.raises(RepositoryError, match="a ref of this run is broken"):
        refs.move(git, (Move("refs/heads/new", None, head),), "test")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("content", BROKEN)
def test_broken_ref_is_put_back_from_the_reflog(bench, repository, content, *, packed):
    told: list[str] = []
    ledger = replace(bench.open(repository), tell=told.append)
    bench.train(ledger, "one\n")
    if packed:
        bench.git(repository, "pack-refs", "--all")
    tip, candidate = bench.train(ledger, "two\n"), bench.step(ledger, "three\n")
    ledger.push_candidate(candidate)
    broken = ["refs/heads/skillopt-candidate/demo", SKILLS]
    for name in broken:
        (repository / ".git" / name).write_bytes(content)
    log = repository / ".git/logs" / SKILLS
    # its last line was not written in full, or tells of a commit that was not
    log.write_bytes(log.read_bytes() + f"{tip} {'1' * 40} Ada <a> 1 +0000\n\0\0\0".encode())
    with ledger.lock():
        position = ledger.sync()
    assert (position.tip, position.candidate) == (tip, candidate)
    assert [line.split(" ")[0] for line in sorted(told)] == broken
    ledger.advance(tip, candidate, candidate)
    assert bench.ref(repository, SKILLS) == candidate


@pytest.mark.parametrize("reflog", [False, True])
@pytest.mark.parametrize(
    "name", [SKILLS, "refs/remotes/origin/skillopt/demo", "refs/remotes/origin/main"]
)
def test_broken_ref_is_put_right_by_the_remote(bench, here, elsewhere, name, *, reflog):
    ledger, _ = bench.trained(here, "one\n")
    (here / ".git" / name).write_bytes(b"")
    if not reflog:
        shutil.rmtree(here / ".git/logs")
    tip = bench.train(bench.open(elsewhere), "two\n")
    base = bench.publish(elsewhere, "tasks.jsonl", "{}\n")
    with ledger.lock():
        position = ledger.sync()
    assert (position.tip, position.base) == (tip, base)
    assert bench.ref(here, SKILLS) == tip


def test_broken_ref_that_nobody_knows_is_left_for_a_person(bench, repository):
    ledger = bench.open(repository)
    tip, file = bench.train(ledger, "one\n"), repository / ".git" / SKILLS
    file.write_bytes(b"")
    shutil.rmtree(repository / ".git/logs")
    with (
        pytest.raises(RepositoryError, match="no reflog knows its commit") as caught,
        ledger.lock(),
    ):
        pass
    assert file.read_bytes() == b""
    subprocess.run(["git", "fsck", "--lost-found"], cwd=repository, check=False)
    assert (repository / ".git/lost-found/commit" / tip).exists()
    remedy = caught.value.hint.split("then: ")[1].split("\n")[0].replace("COMMIT", tip)
    subprocess.run(["sh", "-c", remedy], cwd=repository, check=True)
    with ledger.lock():
        assert ledger.sync().tip == tip


def test_broken_branch_of_somebody_else_is_not_touched(bench, repository):
    ledger, other = bench.open(repository), repository / ".git/refs/heads/other"
    other.write_bytes(b"")
    with ledger.lock():
        tip = bench.train(ledger, "one\n")
    assert bench.ref(repository, SKILLS) == tip
    assert other.read_bytes() == b""
