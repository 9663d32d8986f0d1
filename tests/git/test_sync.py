"""Where a run stands, after all that people and other runs do to branches."""

import subprocess
from pathlib import Path

import pytest
from repositories import Bench

from skillopt_ci.errors import InfrastructureError, LostRace, PushRefused, RepositoryError

SKILLS = "refs/heads/skillopt/demo"
CANDIDATE = "refs/heads/skillopt-candidate/demo"


def test_new_run_stands_on_base(bench, here):
    position = bench.open(here).sync()
    assert position.head == position.base == bench.git(here, "rev-parse", "main")
    assert (position.tip, position.candidate) == (None, None)


def test_other_clone_goes_on_where_the_first_stopped(bench, here, elsewhere):
    first = bench.open(here)
    tip, candidate = bench.train(first, "one\n"), bench.step(first, "two\n")
    first.push_candidate(candidate)
    position = bench.open(elsewhere).sync()
    assert (position.tip, position.candidate) == (tip, candidate)
    assert bench.ref(elsewhere, SKILLS) == tip


def test_remote_base_counts_not_the_local_one(bench, here, elsewhere):
    moved = bench.publish(elsewhere, "tasks.jsonl", "{}\n")
    bench.save(here, "draft.md", "not pushed\n")
    assert bench.open(here).sync().base == moved


def test_push_of_a_reviewer_is_followed_and_what_was_taken_off_stays_off(bench, here, elsewhere):
    ledger, kept = bench.trained(here, "one\n")
    bench.git(elsewhere, "fetch", "--quiet")
    bench.git(elsewhere, "switch", "--quiet", "skillopt/demo")
    theirs = bench.save(elsewhere, bench.skill, "a password\n")
    bench.git(elsewhere, "push", "--quiet")
    assert ledger.sync().tip == bench.ref(here, SKILLS) == theirs
    bench.git(elsewhere, "push", "--quiet", "--force", "origin", f"{kept}:{SKILLS}")
    assert ledger.sync().tip == bench.ref(here, SKILLS) == kept


def test_merged_branch_is_known_as_merged(bench, here, elsewhere):
    ledger, tip = bench.trained(here, "one\n")
    bench.git(elsewhere, "pull", "--quiet", "--no-ff", "--no-rebase", "origin", "skillopt/demo")
    bench.git(elsewhere, "push", "--quiet", "origin", "HEAD:main")
    assert ledger.sync().root == tip != ledger.sync().base


def test_deleted_branch_starts_afresh_but_stays_reachable(bench, here, origin):
    ledger, tip = bench.trained(here, "one\n")
    bench.git(origin, "update-ref", "-d", SKILLS)
    assert ledger.sync().tip is None
    assert bench.ref(here, SKILLS) == bench.ref(here, "refs/remotes/origin/skillopt/demo") == ""
    assert bench.ref(here, "refs/skillopt-ci/deleted/") == tip
    assert bench.ref(origin, SKILLS) != bench.train(ledger, "again\n")


def test_deleted_branch_with_unpushed_commits_asks(bench, here, origin):
    ledger, _ = bench.trained(here, "one\n")
    bench.train(bench.open(here, remote=None), "unpushed\n")
    bench.git(origin, "update-ref", "-d", SKILLS)
    with pytest.raises(RepositoryError, match="was deleted on origin"):
        ledger.sync()


def test_parted_histories_are_not_merged_silently(bench, here, elsewhere):
    bench.train(bench.open(here, remote=None), "mine\n")
    bench.train(bench.open(elsewhere), "theirs\n")
    with pytest.raises(RepositoryError, match=r"has diverged from origin: \w{12} here, \w{12}"):
        bench.open(here).sync()


def test_unpushed_candidate_counts_until_it_is_decided(bench, here):
    offline = bench.open(here, remote=None)
    candidate = bench.step(offline, "one\n")
    offline.push_candidate(candidate)
    assert bench.open(here).sync().candidate == candidate
    offline.advance(None, candidate)
    assert bench.open(here).sync().candidate is None


def test_candidate_dropped_elsewhere_is_dropped_here(bench, here, elsewhere):
    ledger, other = bench.open(here), bench.open(elsewhere)
    candidate = bench.step(ledger, "one\n")
    ledger.push_candidate(candidate)
    other.sync()
    other.withdraw(candidate)
    assert ledger.sync().candidate is None
    assert bench.ref(here, "refs/heads/skillopt-candidate/") == ""


def test_checked_out_branch_is_read_but_left_alone(bench, here, elsewhere):
    first = bench.train(bench.open(here), "one\n")
    bench.git(here, "switch", "--quiet", "skillopt/demo")
    second = bench.train(bench.open(elsewhere), "two\n")
    assert (bench.open(here).sync().tip, bench.ref(here, SKILLS)) == (second, first)


def test_missing_base_suggests_the_nearest(bench, here, repository):
    for folder, where in ((here, "origin"), (repository, "this repository")):
        with pytest.raises(RepositoryError, match=rf"no branch 'mian' in {where}[\s\S]*'main'"):
            bench.open(folder, base="mian").sync()


def test_a_base_that_was_renamed_on_the_remote_is_found_as_told(bench, here, origin):
    bench.git(origin, "branch", "--move", "main", "trunk")
    with pytest.raises(RepositoryError, match="If it was renamed: git fetch") as told:
        bench.open(here).sync()
    for command in told.value.hint.partition("renamed: git ")[2].split(" && git "):
        bench.git(here, *command.split())
    assert bench.open(here).sync().base == bench.ref(origin, "refs/heads/trunk")


def test_remote_that_is_gone_is_an_infrastructure_error(bench, here, origin):
    ledger = bench.open(here)
    origin.rename(origin.with_name("moved.git"))
    with pytest.raises(InfrastructureError, match="cannot read from 'origin'"):
        ledger.sync()


def test_fetch_settings_of_the_user_do_not_widen_the_fetch(bench, here, elsewhere):
    bench.git(elsewhere, "push", "--quiet", "origin", "HEAD:unrelated")
    bench.git(elsewhere, "tag", "v1")
    bench.git(elsewhere, "push", "--quiet", "origin", "v1")
    bench.git(here, "config", "remote.origin.tagOpt", "--tags")
    bench.open(here).sync()
    assert bench.ref(here, "refs/tags/") == bench.ref(here, "refs/remotes/origin/unrelated") == ""


def test_remote_without_news_is_asked_once(bench, here, origin):
    ledger, _ = bench.proposed(here, "one\n")
    before = ledger.sync()
    bench.hook(here, "upload-pack", 'echo >> asked; exec git-upload-pack "$@"')
    bench.git(here, "config", "remote.origin.uploadPack", str(here / "hooks" / "upload-pack"))
    assert ledger.sync() == before
    assert (here / "asked").read_text(encoding="utf-8") == "\n"


def test_branch_that_vanishes_while_we_look_is_simply_gone(bench, here, elsewhere, origin):
    ledger, other = bench.open(here), bench.open(elsewhere)
    other.push_candidate(bench.step(other, "one\n"))
    bench.hook(
        here, "upload-pack",
        f'[ ! -e asked ] || git -C "{origin}" update-ref -d refs/heads/skillopt-candidate/demo\n'
        'touch asked; exec git-upload-pack "$@"',
    )  # fmt: skip
    bench.git(here, "config", "remote.origin.uploadPack", str(here / "hooks" / "upload-pack"))
    assert ledger.sync().candidate is None


def test_candidate_is_pushed_before_it_is_measured(bench, here, origin):
    ledger, candidate = bench.written(here, "one\n")
    for _ in range(2):
        ledger.push_candidate(candidate)
        assert bench.ref(origin, CANDIDATE) == bench.ref(here, CANDIDATE) == candidate
        assert ledger.sync().candidate == candidate


def test_second_candidate_loses(bench, here, elsewhere, origin):
    first, second = bench.open(here), bench.open(elsewhere)
    mine, theirs = bench.step(first, "mine\n"), bench.step(second, "theirs\n")
    second.push_candidate(theirs)
    with pytest.raises(LostRace, match="another run or a person moved"):
        first.push_candidate(mine)
    assert (bench.ref(origin, CANDIDATE), bench.ref(here, CANDIDATE)) == (theirs, "")


def test_second_local_candidate_loses(bench, repository):
    ledger, _ = bench.proposed(repository, "one\n")
    with pytest.raises(LostRace, match="another step is in flight"):
        ledger.push_candidate(bench.step(ledger, "two\n"))


def test_only_the_candidate_named_is_withdrawn_and_is_gone_everywhere(bench, here, origin):
    ledger, candidate = bench.proposed(here, "one\n")
    with pytest.raises(LostRace):
        ledger.withdraw(bench.step(ledger, "two\n"))
    assert bench.ref(origin, CANDIDATE) == candidate
    for _ in range(2):
        ledger.withdraw(candidate)
    assert bench.ref(origin, CANDIDATE) == bench.ref(here, CANDIDATE) == ""
    assert ledger.sync().candidate is None


def test_advance_that_is_no_fast_forward_is_a_defect(bench, repository):
    ledger, tip = bench.trained(repository, "one\n")
    with pytest.raises(ValueError, match="not a fast-forward"):
        ledger.advance(tip, ledger.sync().base)


@pytest.mark.parametrize("first_step", [True, False])
def test_run_that_got_there_first_is_never_overwritten(bench, here, elsewhere, origin, first_step):
    mine = bench.open(here)
    if not first_step:
        bench.train(mine, "zero\n")
    position, candidate = mine.sync(), bench.step(mine, "mine\n")
    theirs = bench.train(bench.open(elsewhere), "theirs\n")
    with pytest.raises(LostRace):
        mine.advance(position.tip, candidate)
    assert bench.ref(origin, SKILLS) == theirs
    assert mine.sync().tip == theirs


def test_fetch_of_the_user_does_not_weaken_the_guard(bench, here, elsewhere, origin):
    mine, candidate = bench.written(here, "mine\n")
    theirs = bench.train(bench.open(elsewhere), "theirs\n")
    bench.git(here, "fetch", "--quiet")
    with pytest.raises(LostRace, match="by now"):
        mine.advance(None, candidate)
    assert bench.ref(origin, SKILLS) == theirs


def test_a_branch_moved_here_loses_before_anything_is_pushed(bench, here, origin):
    ledger = bench.open(here)
    tip, late = bench.train(ledger, "one\n"), bench.step(ledger, "two\n")
    bench.git(here, "update-ref", "refs/heads/skillopt/demo", "main")
    with pytest.raises(LostRace, match="was moved in this repository"):
        ledger.advance(tip, late)
    assert bench.ref(origin, SKILLS) == tip


def test_local_race_is_lost_too(bench, repository):
    ledger, late = bench.written(repository, "late\n")
    bench.train(ledger, "early\n")
    with pytest.raises(LostRace):
        ledger.advance(None, late)


def test_branch_deleted_meanwhile_is_not_recreated(bench, here, origin):
    ledger = bench.open(here)
    tip, commit = bench.train(ledger, "one\n"), bench.step(ledger, "two\n")
    bench.git(origin, "update-ref", "-d", SKILLS)
    with pytest.raises(LostRace):
        ledger.advance(tip, commit)
    assert bench.ref(origin, SKILLS) == ""


def test_server_refusing_one_ref_moves_neither(bench, here, origin):
    ledger, candidate = bench.proposed(here, "one\n")
    bench.hook(origin, "update", 'case "$1" in *candidate*) echo "candidates stay"; exit 1;; esac')
    with pytest.raises(PushRefused, match="candidates stay"):
        ledger.advance(None, candidate, candidate)
    assert (bench.ref(origin, SKILLS), bench.ref(origin, CANDIDATE)) == ("", candidate)
    assert (bench.ref(here, SKILLS), bench.ref(here, CANDIDATE)) == ("", candidate)


def test_local_hook_that_refuses_is_named(bench, repository):
    ledger, candidate = bench.written(repository, "one\n")
    bench.hook(repository / ".git", "reference-transaction", "echo frozen >&2; exit 1")
    with pytest.raises(PushRefused, match="reference-transaction hook refused"):
        ledger.push_candidate(candidate)


def test_death_after_the_push_heals_with_the_next_sync(bench, here, origin):
    ledger, candidate = bench.proposed(here, "one\n")
    frozen = bench.hook(here / ".git", "reference-transaction", "exit 1")
    with pytest.raises(PushRefused):
        ledger.advance(None, candidate, candidate)
    frozen.unlink()
    assert (bench.ref(origin, SKILLS), bench.ref(here, SKILLS)) == (candidate, "")
    position = ledger.sync()
    assert (position.tip, position.candidate) == (candidate, None)
    assert (bench.ref(here, SKILLS), bench.ref(here, CANDIDATE)) == (candidate, "")


@pytest.mark.parametrize("branch", ["skillopt/demo", "skillopt-candidate/demo"])
def test_checked_out_branch_is_not_moved(bench, repository, branch):
    bench.git(repository, "switch", "--quiet", "-c", branch)
    ledger = bench.open(repository, base="main")
    commit = bench.step(ledger, "one\n")
    with pytest.raises(RepositoryError, match="is checked out in"):
        ledger.advance(None, commit)
    with pytest.raises(RepositoryError, match="is checked out in"):
        ledger.push_candidate(commit)


def test_unpushed_steps_are_pushed_with_the_next(bench, here, origin):
    offline = bench.train(bench.open(here, remote=None), "offline\n")
    assert bench.open(here).sync().tip == offline
    tip = bench.train(bench.open(here), "online\n")
    assert bench.ref(origin, SKILLS) == tip


def test_tags_and_other_branches_are_not_pushed(bench, here, origin):
    bench.git(here, "config", "push.followTags", "true")
    bench.git(here, "branch", "private")
    bench.git(here, "tag", "-a", "-m", "private", "v1")
    bench.train(bench.open(here), "one\n")
    refs = bench.git(origin, "for-each-ref", "--format=%(refname)").splitlines()
    assert refs == ["refs/heads/main", SKILLS]


def check(bench: Bench, folder: Path) -> None:
    ledger = bench.open(folder, base="main")
    ledger.preflight(ledger.sync())


def test_good_repository_passes_and_stays_also_with_a_step_in_flight(bench, here, origin):
    before = bench.git(origin, "for-each-ref")
    check(bench, here)
    assert bench.git(origin, "for-each-ref") == before
    assert bench.proposed(here, "one\n")[1] in (before := bench.git(origin, "for-each-ref"))
    check(bench, here)
    assert bench.git(origin, "for-each-ref") == before


def test_missing_identity_is_found(bench, here, git_config):
    git_config.write_text("")
    with pytest.raises(RepositoryError, match=r"who is committing\nSet git\.author_name"):
        check(bench, here)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"commit.gpgSign": "true", "gpg.program": "false"}, r"gpg failed(.*\n)+.*commit\.gpgSign"),
        ({"remote.origin.pushUrl": "http://127.0.0.1:9/repo.git"}, "network or the server failed"),
        ({"remote.origin.pushUrl": "."}, "to another repository than it is fetched from"),
    ],
)
def test_settings_that_cannot_work_are_found(bench, here, settings, words):
    bench.save(here, "ahead", "of origin\n")
    for key, value in settings.items():
        bench.git(here, "config", key, value)
    with pytest.raises((RepositoryError, PushRefused), match=words):
        check(bench, here)


def test_server_without_atomic_pushes_is_found(bench, here, origin):
    bench.git(origin, "config", "receive.advertiseAtomic", "false")
    with pytest.raises(PushRefused, match="several refs as one transaction"):
        check(bench, here)


def test_checked_out_skills_branch_is_found_in_any_worktree_but_a_removed_one(bench, here):
    bench.git(here, "worktree", "add", "--quiet", "-b", "skillopt/demo", "../ada's")
    for head, to in (("main", "--detach"), ("--detach", "main")):  # git has main in one place only
        bench.git(here, "switch", "--quiet", head)
        with pytest.raises(RepositoryError, match=rf"/ada's;[\s\S]*/ada'\"'\"'s' switch {to}"):
            check(bench, here)
    (here.parent / "ada's").rename(here.parent / "gone")
    check(bench, here)
    assert "prunable" in bench.git(here, "worktree", "list", "--porcelain")


@pytest.mark.parametrize("where", ["this repository", "origin"])
@pytest.mark.parametrize("name", ["skillopt", "skillopt-candidate", "skillopt/demo/x"])
def test_branch_in_the_way_is_found_and_its_hint_works(bench, here, origin, name, where):
    bench.git(origin if where == "origin" else here, "branch", name)
    with pytest.raises(RepositoryError, match=f"branch '{name}' in {where} is in the way") as told:
        check(bench, here)
    command = told.value.hint.partition(": ")[2]
    subprocess.run(["sh", "-ec", command], cwd=here, check=True, capture_output=True)
    check(bench, here)


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        (401, "(?s)does not accept our credentials.*renew the token"),
        (403, "read but not written"),
        (404, "there is no repository"),
        (503, "the network or the server failed"),
    ],
)
def test_remote_that_cannot_be_pushed_to_is_found(bench, here, refusing_server, status, meaning):
    url = refusing_server.replace("://", "://me:s3cret@")
    bench.git(here, "config", "remote.origin.pushUrl", f"{url}/{status}/repo.git")
    with pytest.raises(PushRefused, match=meaning) as refused:
        check(bench, here)
    assert "s3cret" not in str(refused.value)


def test_push_that_git_refuses_here_is_found(bench, here):
    bench.git(here, "config", "push.gpgSign", "true")
    with pytest.raises(PushRefused, match=r"push\.gpgSign asks for a signed push"):
        check(bench, here)
    bench.git(here, "config", "push.gpgSign", "false")
    bench.hook(here / ".git", "pre-push", "echo no pushes on Friday >&2; exit 1")
    with pytest.raises(PushRefused, match=r"own pre-push hook refused it\nno pushes on Friday"):
        check(bench, here)
