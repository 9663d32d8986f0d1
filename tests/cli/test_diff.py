from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.show import print_diff
from skillopt_ci.training.offline_eval import NamedSkill

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

LONG = "Write every date as year, month and day with hyphens between, and never with words for it"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class Screen(io.StringIO):
    """A terminal as far as programs can tell."""

    def isatty(self) -> bool:
        return True


def shown(before: str, after: str, *, columns: int = 80, stream: io.StringIO | None = None) -> str:
    stream = io.StringIO() if stream is None else stream
    settings = Globals({"COLUMNS": str(columns), "TERM": "xterm-256color"}, Path())
    with redirect_stdout(stream):
        print_diff(NamedSkill("initial", before), NamedSkill("current", after), settings)
    return stream.getvalue()


def test_changed_words_stand_in_brackets_without_colour() -> None:
    told = shown("# Dates\nWrite dates day first.\n", "# Dates\nWrite dates year first.\n")
    assert told.splitlines() == [
        "− initial, 6 words",
        "+ current, 6 words",
        "1 line removed or changed, 1 line added or changed",
        "",
        "  # Dates",
        "− Write dates [-day-] first.",
        "+ Write dates {+year+} first.",
    ]


def test_a_new_line_needs_no_brackets() -> None:
    assert shown("# Dates\n", f"# Dates\n{LONG[:39]}\n").endswith(f"\n+ {LONG[:39]}\n")


def test_a_terminal_has_colours_and_the_same_words() -> None:
    before, after = "Write dates day first.\n", "Write dates year first.\n"
    coloured = shown(before, after, stream=Screen())
    assert "\x1b[1;4;32myear" in coloured
    assert "+ Write dates year first." in _ESCAPE.sub("", coloured).splitlines()


def test_long_lines_are_folded_between_words_and_keep_their_sign() -> None:
    lines = shown(f"{LONG}.\n", f"{LONG} at all.\n", columns=40).splitlines()[4:]
    assert all(len(line) <= 40 for line in lines)
    assert {line[0] for line in lines} == {"−", "+"}
    words = " ".join(line[2:] for line in lines if line[0] == "+")
    assert words.replace("{+", "").replace("+}", "") == f"{LONG} at all."


def test_equal_texts_are_said_to_be_equal() -> None:
    assert shown("a\n", "a\n") == "The skill is the same in initial and current.\n"


@pytest.mark.parametrize("text", ["\x1b[2J", "::error::x", "##[error]x"])
def test_what_a_model_wrote_commands_neither_terminal_nor_runner(text: str) -> None:
    told = shown("a\n", f"{text}\n")
    assert text not in told
    assert not re.search(r"^\s*::", told, re.MULTILINE)


@given(st.text(), st.text())
def test_whatever_changed_commands_nobody(before: str, after: str) -> None:
    lines = shown(before, after, columns=30).splitlines()
    assert all(re.search(r"\x1b|##\[", line) is None for line in lines)


def test_the_run_is_compared_from_its_start_to_now(cli: Cli, trained: Path) -> None:
    done = cli(trained, "diff")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("− initial, ")
    assert "\x1b" not in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_versions_are_words_steps_refs_and_files(
    cli: Cli, done: Path, git: Callable[..., str]
) -> None:
    (done / "mine.md").write_text("# Mine\n", encoding="utf-8")
    last = git(done, "rev-parse", "skillopt/quickstart")
    assert "the same in step 2 and current" in cli(done, "diff", "2", "current").out
    assert f"the same in step 2 and {last}" in cli(done, "diff", "2", last).out
    assert "the same in initial and main" in cli(done, "diff", "initial", "main").out
    assert "+ mine.md, 2 words" in cli(done, "diff", "best", "mine.md").out


def test_json_has_a_diff_that_git_could_apply(cli: Cli, trained: Path) -> None:
    found = cli(trained, "diff", "--json").json
    assert found["before"]["name"] == "initial"
    assert found["lines_added"] > 0
    assert found["diff"].startswith("--- a/SKILL.md\n+++ b/SKILL.md\n")


@pytest.mark.parametrize(
    ("word", "text"),
    [("9", "has no step 9: its steps are 1 to 2"), ("inital", "Did you mean initial?")],
)
def test_a_version_that_is_not_there(cli: Cli, trained: Path, word: str, text: str) -> None:
    done = cli(trained, "diff", word)
    assert done.code == 2
    assert text in done.err


def test_steps_that_were_squashed_away_are_told_so(
    cli: Cli, done: Path, git: Callable[..., str]
) -> None:
    git(done, "merge", "--quiet", "--squash", "skillopt/quickstart")
    git(done, "commit", "--quiet", "-m", "Take it all in")
    git(done, "branch", "--quiet", "-D", "skillopt/quickstart")
    told = cli(done, "diff", "1")
    assert told.code == 2
    assert "not in the history of this clone any more" in told.err
    assert cli(done, "diff").code == 0
