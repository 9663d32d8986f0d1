from pathlib import Path

import pytest

from skillopt_ci.errors import InfrastructureError, LostRace, PushRefused, RepositoryError
from skillopt_ci.git import remote
from skillopt_ci.git.process import Exited

GITHUB = "echo 'error: GH006: Protected branch update failed for refs/heads/x.' >&2; exit 1"


@pytest.mark.parametrize(
    ("hook", "script", "words"),
    [
        ("update", GITHUB, "branch protection or ruleset forbids it[\\s\\S]*GH006"),
        ("pre-receive", "echo 'sign the CLA' >&2; exit 1", "hook on the server[\\s\\S]*the CLA"),
        (
            "update",
            f"echo '- Commits must have verified signatures.' >&2; {GITHUB}",
            "ruleset asks for signed commits",
        ),
        ("update", f"echo '- Push cannot contain secrets' >&2; {GITHUB}", "takes something in it"),
        ("update", "echo 'not you' >&2; exit 1", "hook on the server[\\s\\S]*not you"),
        ("reference-transaction", '[ "$1" != prepared ]', "reference-transaction hook, here or on"),
    ],
)
def test_refusal_of_the_server_is_told_apart(bench, here, origin, hook, script, words):
    ledger, commit = bench.written(here, "one\n")
    bench.hook(origin, hook, script)
    with pytest.raises(PushRefused, match=words):
        ledger.advance(None, commit)


def test_refused_deletion_is_a_rule_too(bench, here, origin):
    ledger, commit = bench.proposed(here, "one\n")
    bench.git(origin, "config", "receive.denyDeletes", "true")
    with pytest.raises(PushRefused, match="branch protection or ruleset"):
        ledger.advance(None, commit, commit)


@pytest.mark.parametrize(
    "reason", ["[rejected] (stale info)", "[remote rejected] (incorrect old value provided)"]
)
def test_lease_that_failed_is_a_race(reason):
    lines = f"To origin\n!\tabc:refs/heads/skillopt/demo\t{reason}\n"
    assert isinstance(remote.push_error("origin", Exited(1, lines.encode(), "")), LostRace)


#: What another push does between this one's look at the refs and its transaction; a hook of the
#: server stands at that point.
MEANWHILE = {
    "deletes": "update-ref -d refs/heads/skillopt-candidate/demo",
    "creates": "update-ref refs/heads/skillopt/demo main",
    "moves": "update-ref refs/heads/skillopt-candidate/demo main",
}


@pytest.mark.parametrize("other", MEANWHILE)
def test_push_that_meets_another_one_lost_a_race(bench, here, origin, other):
    ledger, commit = bench.proposed(here, "one\n")
    # git forbids a hook of its own what it cannot forbid another process
    bench.hook(origin, "pre-receive", f"env -u GIT_QUARANTINE_PATH git {MEANWHILE[other]}")
    with pytest.raises(LostRace, match="moved this run's branches"):
        ledger.advance(None, commit, commit)


def test_push_that_was_carried_out_already_is_done(bench, here, origin):
    ledger, commit = bench.proposed(here, "one\n")
    # as after a lost answer, when curl sends the push again
    git = "env -u GIT_QUARANTINE_PATH git update-ref"
    moves = f"{git} refs/heads/skillopt/demo {commit}; {git} -d refs/heads/skillopt-candidate/demo"
    bench.hook(origin, "pre-receive", moves)
    ledger.advance(None, commit, commit)
    assert bench.ref(here, "refs/heads/skillopt") == commit


def test_push_whose_server_is_gone_before_it_answers_was_refused_by_no_hook(bench, here, origin):
    ledger, commit = bench.proposed(here, "one\n")
    bench.hook(origin, "post-receive", f"mv {origin} {origin}.away; kill -9 $PPID")
    with pytest.raises(PushRefused, match="the network or the server failed"):
        ledger.advance(None, commit, commit)


@pytest.mark.parametrize(
    "left", ["refs/heads/skillopt-candidate/demo.lock", "packed-refs.lock", "packed-refs.new"]
)
def test_lock_that_stays_on_the_remote_is_named(bench, here, origin, monkeypatch, left):
    slept = list[float]()
    monkeypatch.setattr(remote, "sleep", slept.append)
    ledger, commit = bench.proposed(here, "one\n")
    bench.git(origin, "pack-refs", "--all")
    bench.git(origin, "config", "core.packedRefsTimeout", "0")  # git itself need not wait, too
    (origin / left).parent.mkdir(exist_ok=True)
    (origin / left).touch()
    with pytest.raises(PushRefused, match="git left a lock behind there") as caught:
        ledger.advance(None, commit, commit)
    assert Path(caught.value.hint.split("\n")[1]) == origin / left
    assert sum(slept) > 10
    (origin / left).unlink()
    ledger.advance(None, commit, commit)
    assert bench.ref(origin, "refs/heads/skillopt") == commit


@pytest.mark.parametrize("moves", [False, True])
def test_lock_that_another_push_releases_is_waited_for(bench, here, origin, monkeypatch, *, moves):
    ledger, commit = bench.proposed(here, "one\n")
    lock = origin / "refs/heads/skillopt-candidate/demo.lock"
    lock.touch()

    def other_push_ends(_: float) -> None:
        lock.unlink()
        if moves:
            bench.git(origin, "update-ref", "refs/heads/skillopt-candidate/demo", "main")

    monkeypatch.setattr(remote, "sleep", other_push_ends)
    if moves:
        with pytest.raises(LostRace, match="moved this run's branches"):
            ledger.advance(None, commit, commit)
    else:
        ledger.advance(None, commit, commit)
        assert bench.ref(origin, "refs/heads/skillopt") == commit


@pytest.mark.parametrize("content", [b"", b"\0" * 41])
def test_broken_ref_of_the_remote_is_neither_a_race_nor_a_deletion(bench, here, origin, content):
    ledger, tip = bench.trained(here, "one\n")
    (origin / "refs/heads/skillopt/demo").write_bytes(content)
    with pytest.raises(InfrastructureError, match="is broken on 'origin'") as caught:
        ledger.sync()
    assert caught.value.hint.endswith(f"git update-ref refs/heads/skillopt/demo {tip}")
    assert bench.ref(here, "refs/heads/skillopt") == tip


def test_push_to_a_remote_with_a_broken_ref_says_so(bench, here, origin):
    ledger, commit = bench.written(here, "one\n")
    (origin / "refs/heads/other").touch()
    with pytest.raises(PushRefused, match="an object or a ref of it is broken"):
        ledger.push_candidate(commit)


@pytest.mark.parametrize("kind", ["lock", "broken"])
def test_fetch_that_refs_of_this_repository_stop_blames_them(bench, here, elsewhere, kind):
    bench.publish(elsewhere, "tasks.jsonl", "{}\n")
    name = "origin/main.lock" if kind == "lock" else "origin/other"
    (here / ".git/refs/remotes" / name).touch()
    with pytest.raises(RepositoryError, match="refs of this repository are locked or broken"):
        bench.open(here).sync()


def test_words_of_a_hook_are_not_taken_for_a_network_failure():
    line = b"!\tabc:refs/heads/x\t[remote rejected] (pre-receive hook declined)\n"
    error = remote.push_error("origin", Exited(1, line, "remote: connection refused by policy"))
    assert "a hook on the server declined it" in error.message
    since_git_2_54 = "fatal: in 'preparing' phase, update aborted by the reference-transaction hook"
    refused = remote.push_error("origin", Exited(1, b"", since_git_2_54))
    assert (type(refused), "here or on the server" in str(refused)) == (PushRefused, True)
    held = remote.push_error("origin", Exited(1, b"", "remote: error: cannot lock references"))
    assert "then remove\nreftable/tables.list.lock\n" in held.hint
    for words in ("fatal: expected flush", "Operation too slow. Less", "signal 13 (Broken pipe)"):
        assert "the network or" in remote.fetch_error("origin", Exited(1, b"", words)).message
    error = remote.fetch_error("origin", Exited(128, b"", "fatal: the moon is full"))
    assert isinstance(error, InfrastructureError)
    for words in ("ref r failed: reference already exists", "cannot lock ref 'r': denied"):
        assert "locked" in remote.fetch_error("origin", Exited(1, b"", f"error: {words}")).message
    moved = Exited(1, b"", "error: cannot lock ref 'r': is at 1 but expected 2")
    assert isinstance(remote.fetch_error("origin", moved), InfrastructureError)
    for told in (remote.fetch_error, remote.push_error):
        assert told("origin", Exited(3, b"", "")).message.endswith("reason\nexit status 3")
    assert "git gives this reason\nfatal: the moon is full" in error.message
