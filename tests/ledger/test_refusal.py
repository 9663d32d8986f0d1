"""A server's refusal is worded so that a person knows whose rule it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skillopt_ci.errors import InfrastructureError, LostRace, PushRefused
from skillopt_ci.ledger import refusal
from skillopt_ci.ledger.git import Result

if TYPE_CHECKING:
    from tests.ledger.conftest import Bench


GITHUB = (
    "echo 'error: GH006: Protected branch update failed for refs/heads/skillopt/demo.' >&2; exit 1"
)


@pytest.mark.parametrize(
    ("hook", "script", "words"),
    [
        ("update", GITHUB, "branch protection or ruleset forbids it[\\s\\S]*GH006"),
        (
            "pre-receive",
            "echo 'sign the CLA' >&2; exit 1",
            "hook on the server[\\s\\S]*sign the CLA",
        ),
        ("update", "echo 'not you' >&2; exit 1", "hook on the server[\\s\\S]*not you"),
        ("reference-transaction", '[ "$1" != prepared ]', "reference-transaction hook, here or on"),
    ],
)
def test_refusal_of_the_server_is_told_apart(
    bench: Bench, here: Path, origin: Path, hook: str, script: str, words: str
) -> None:
    ledger = bench.open(here)
    commit = bench.step(ledger, "one\n")
    bench.hook(origin, hook, script)
    with pytest.raises(PushRefused, match=words):
        ledger.advance(None, commit)


def test_refused_deletion_is_a_rule_too(bench: Bench, here: Path, origin: Path) -> None:
    ledger = bench.open(here)
    commit = bench.step(ledger, "one\n")
    ledger.propose(commit)
    bench.git(origin, "config", "receive.denyDeletes", "true")
    with pytest.raises(PushRefused, match="branch protection or ruleset"):
        ledger.advance(None, commit, commit)


@pytest.mark.parametrize(
    "reason",
    ["[rejected] (stale info)", "[remote rejected] (incorrect old value provided)"],
)
def test_lease_that_failed_is_a_race(reason: str) -> None:
    lines = f"To origin\n!\tabc:refs/heads/skillopt/demo\t{reason}\n"
    assert isinstance(refusal.of_push("origin", Result(1, lines.encode(), "")), LostRace)


#: What another push does between this one's look at the refs and its transaction; a hook of the
#: server stands at that point.
MEANWHILE = {
    "deletes": "update-ref -d refs/heads/skillopt-candidate/demo",
    "creates": "update-ref refs/heads/skillopt/demo main",
    "moves": "update-ref refs/heads/skillopt-candidate/demo main",
}


@pytest.mark.parametrize("other", [*MEANWHILE, "still holds"])
def test_push_that_meets_another_one_lost_a_race(
    bench: Bench, here: Path, origin: Path, other: str
) -> None:
    ledger = bench.open(here)
    commit = bench.step(ledger, "one\n")
    ledger.propose(commit)
    if other in MEANWHILE:
        # git forbids a hook of its own what it cannot forbid another process
        bench.hook(origin, "pre-receive", f"env -u GIT_QUARANTINE_PATH git {MEANWHILE[other]}")
    else:
        (origin / "refs/heads/skillopt-candidate/demo.lock").touch()
    with pytest.raises(LostRace, match="moved this run's branches"):
        ledger.advance(None, commit, commit)


def test_words_of_a_hook_are_not_taken_for_a_network_failure() -> None:
    line = b"!\tabc:refs/heads/x\t[remote rejected] (pre-receive hook declined)\n"
    error = refusal.of_push("origin", Result(1, line, "remote: connection refused by policy"))
    assert "a hook on the server declined it" in error.message


def test_unknown_reason_is_passed_on() -> None:
    error = refusal.of_fetch("origin", Result(128, b"", "fatal: the moon is full"))
    assert isinstance(error, InfrastructureError)
    assert "git gives this reason\nfatal: the moon is full" in error.message
