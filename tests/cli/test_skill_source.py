from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.cli.build import find_skill, open_session
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import UsageError
from skillopt_ci.progress import silent
from skillopt_ci.training.run_context import Session

SKILL = "skills/ledger/SKILL.md"
GitText = Callable[..., str]


def session(folder: Path) -> Session:
    return open_session(Globals(environ=dict(os.environ), cwd=folder), silent)


def test_kept_words_read_the_newest_commit_of_the_run(trained: Path, git: GitText) -> None:
    here = session(trained)
    current = find_skill(here, "current", trained).text
    assert current == git(trained, "show", f"skillopt/quickstart:{SKILL}") + "\n"
    assert find_skill(here, "initial", trained).text == git(trained, "show", f"main:{SKILL}") + "\n"
    best = git(trained, "show", "skillopt/quickstart:.skillopt/quickstart/best_skill.md")
    assert find_skill(here, "best", trained).text == best + "\n"
    assert best != git(trained, "show", f"main:{SKILL}")


def test_a_file_is_read_as_it_stands_here(done: Path) -> None:
    (done / "draft.md").write_text("# Draft\n", encoding="utf-8")
    assert find_skill(session(done), "draft.md", done).text == "# Draft\n"


def test_the_empty_file_is_a_skill_too(done: Path) -> None:
    (done / "empty.md").write_text("", encoding="utf-8")
    assert find_skill(session(done), "empty.md", done).text == ""


def test_a_ref_means_the_run_s_skill_there_or_any_file_of_it(done: Path) -> None:
    here = session(done)
    assert find_skill(here, "main", done).text == find_skill(here, f"main:{SKILL}", done).text
    assert find_skill(here, "main:skillopt.yaml", done).text.startswith("# The example")


@pytest.mark.parametrize("word", ["no-such-thing", "main:no/such/file", "--all", "../.."])
def test_a_word_that_means_nothing_says_what_was_looked_for(trained: Path, word: str) -> None:
    with pytest.raises(UsageError, match=rf"names no skill: .*{SKILL}.*best, current, initial"):
        find_skill(session(trained), word, trained)


def test_a_misspelt_word_gets_the_nearest(trained: Path) -> None:
    with pytest.raises(UsageError) as told:
        find_skill(session(trained), "inital", trained)
    assert told.value.hint == "Did you mean initial?"


def test_a_file_that_is_no_text_is_refused(done: Path) -> None:
    (done / "picture.md").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"picture\.md is not UTF-8"):
        find_skill(session(done), "picture.md", done)


def test_before_the_start_the_skill_is_its_own_initial_but_there_is_no_best(
    untrained: Path,
) -> None:
    here = session(untrained)
    initial = find_skill(here, "initial", untrained)
    assert initial.text == find_skill(here, "current", untrained).text
    with pytest.raises(UsageError, match="has no best skill") as told:
        find_skill(here, "best", untrained)
    assert "skillopt-ci step" in told.value.hint
