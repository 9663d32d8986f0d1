"""A step is not dominated by git: how many processes it begins is bounded."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

#: Steps of the run that is counted.
STEPS = 4


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """Put a git before git that notes down its commands; returns what counts them."""
    real, notes, wrapper = shutil.which("git"), tmp_path / "begun", tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {notes}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=os.pathsep)

    def count() -> Counter[str]:
        return Counter(_command(line) for line in notes.read_text().splitlines())

    return count


def _command(line: str) -> str:
    """Return the first word that is no option of git itself."""
    return re.sub(r"-[cC] \S+ ", "", line).split(" ")[0]


def test_local_run_begins_few_processes(checkout, begun):
    outcomes = checkout.run()
    count = begun()
    assert len(outcomes) == STEPS
    assert count.total() <= 20 + 11 * STEPS, count
    assert [count[name] for name in ("cat-file", "hash-object", "mktree")] == [1, 1, 1]


def test_run_with_a_remote_begins_few_processes(workshop, begun):
    clone = workshop.clone(workshop.origin(), "clone")
    before = begun()
    outcomes = clone.run()
    count = begun() - before
    assert len(outcomes) == STEPS
    assert count.total() <= 20 + 21 * STEPS, count


def test_reading_takes_as_many_processes_whatever_the_length(checkout, begun):
    session = checkout.session()
    session.ledger.read("main", "skills/SKILL.md")
    before = begun()
    for _ in range(50):
        assert session.ledger.read("main", "skills/SKILL.md") == "# Items\n"
    assert begun() == before
