"""Killed before or after any command that moves a ref, a run goes on and does its step once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from programs import write_program
from repositories import Bench

from skillopt_ci.ledger.ledger import Ledger

#: Stands in for git and kills its parent, the trainer, around one call of one command.
KILLER = """#!/bin/sh
case " $* " in *" $DIE_COMMAND "*) echo >> "$DIE_COUNT";; *) exec "$REAL_GIT" "$@";; esac
now="$(wc -l < "$DIE_COUNT" | tr -d ' ')"
[ "$now before" != "$DIE_CALL $DIE_WHEN" ] || { kill -9 $PPID; exit 1; }
"$REAL_GIT" "$@"
status=$?
[ "$now after" != "$DIE_CALL $DIE_WHEN" ] || kill -9 $PPID
exit $status
"""

TRAINER = """
import sys
from pathlib import Path
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.config import config

ledger = Ledger.open(Path(sys.argv[1]), "demo", config.Git())
head = ledger.sync().head
candidate = ledger.commit((head,), head, {"skills/SKILL.md": "trained"}, "Write trained")
ledger.push_candidate(candidate)
merge = ledger.commit((head, candidate), candidate, {}, "Merge trained")
ledger.advance(None, merge, candidate)
"""


def train_and_die(folder: Path, command: str, call: int, when: str) -> int:
    wrapper = write_program(folder.parent / "bin" / "git", KILLER)
    env = {
        **os.environ,
        "PATH": f"{wrapper.parent}:{os.environ['PATH']}",
        "REAL_GIT": shutil.which("git") or "",
        "DIE_COMMAND": command,
        "DIE_CALL": str(call),
        "DIE_WHEN": when,
        "DIE_COUNT": str(wrapper.parent / "calls"),
    }
    trainer = [sys.executable, "-c", TRAINER, str(folder)]
    return subprocess.run(trainer, env=env, check=False).returncode


def resume(bench: Bench, ledger: Ledger) -> None:
    """Go on from the last durable point, as a run does."""
    position = ledger.sync()
    if position.candidate is not None:
        parents = (position.base, position.candidate)
        merge = ledger.commit(parents, position.candidate, {}, "Merge trained")
        ledger.advance(position.tip, merge, position.candidate)
    elif position.tip is None:
        bench.train(ledger, "trained")


@pytest.mark.end_to_end
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("command", ["push", "update-ref"])
def test_killed_run_goes_on(bench, here, origin, command, call, when):
    assert train_and_die(here, command, call, when) == -9
    ledger = bench.open(here)
    resume(bench, ledger)
    position = ledger.sync()
    assert position.tip is not None
    assert position.candidate is None
    assert len(ledger.log(f"{position.base}..{position.tip}")) == 2
    assert ledger.read(position.tip, bench.skill) == "trained"
    for repository in (here, origin):
        assert bench.ref(repository, "refs/heads/skillopt") == position.tip
