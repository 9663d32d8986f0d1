import io
import re
import sys
from collections.abc import Iterable
from contextlib import closing, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Terminal
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.cli import console
from skillopt_ci.cli.options import Globals
from skillopt_ci.progress import (
    CallPaid,
    Event,
    Note,
    StageAdvanced,
    StageFinished,
    StageStarted,
    StepStarted,
    TerminalLent,
)

STEP = StepStarted(3, 12, 1, 0.675, 40, "merged")
CURSOR_HIDDEN, CURSOR_SHOWN = "\x1b[?25l", "\x1b[?25h"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (72, "1 min 12 s"), (7380, "2 h 03 min")]
)
def test_time(seconds, text):
    assert console.time_text(seconds) == text


@pytest.mark.parametrize(
    ("done", "seconds", "text"), [(0, 5, ""), (3, 0, ""), (30, 20, "1.5/s"), (3, 20, "9.0/min")]
)
def test_rate(done, seconds, text):
    assert console.rate_text(done, seconds) == text


def written(steps: Iterable[tuple[float, Event]]) -> list[str]:
    stream, clock = io.StringIO(), Clock()
    progress = console.ProgressDisplay(stream, Globals({}, Path()), clock)
    for seconds, event in steps:
        clock.now += seconds
        progress(event)
    return stream.getvalue().split("\n")[:-1]


@pytest.mark.parametrize(
    ("seconds", "summary", "told"),
    [(31, "0.5 n=3", "0.5 n=3 (31 s)"), (0.1, "4 edits", "4 edits"), (0, "", "done")],
)
def test_a_stage_writes_its_start_and_its_end(seconds, summary, told):
    steps = [(0, StageStarted("rollout", 3_000)), (seconds, StageFinished("rollout", summary))]
    assert written(steps) == ["· rollout      3,000 to do", f"✓ rollout      {told}"]


def test_a_stage_that_never_started_took_no_time():
    assert written([(12, StageFinished("gate", "merged"))]) == ["✓ gate         merged"]


def test_between_them_there_is_at_most_one_line_in_ten_seconds():
    steps: list[tuple[float, Event]] = [(0, StageStarted("rollout", 1_000))]
    steps += [(1, StageAdvanced("rollout", f"t{i}")) for i in range(1, 25)]
    assert written(steps)[1:] == [
        "· rollout      10 of 1,000 after 10 s: t10",
        "· rollout      20 of 1,000 after 20 s: t20",
    ]


def test_stages_overlap_and_an_unannounced_one_counts_too():
    steps = [(0, StageStarted("a", 2)), (1, StageAdvanced("b")), (10, StageAdvanced("b"))]
    steps += [(1, StageFinished("a")), (10, StageAdvanced("b", "x"))]
    assert written(steps) == [
        "· a            2 to do",
        "· b            2 after 10 s",
        "✓ a            (12 s)",
        "· b            3 after 21 s: x",
    ]


def test_notes_are_written_at_once():
    steps = [(0, Note("going on with step 3")), (0, Note("no price set", "warning"))]
    assert written(steps) == ["· going on with step 3", "! warning: no price set"]
    assert written((0, event) for event in (STEP, CallPaid(10, None), CallPaid(10, None))) == [
        "· step         3 of 12, epoch 1: the skill scores 0.675 on 40 tasks, the last step merged"
    ]


events: st.SearchStrategy[Event] = st.one_of(
    st.builds(StageStarted, st.text(), st.integers(0, 9)),
    st.builds(StageAdvanced, st.text(), st.text()),
    st.builds(StageFinished, st.text(), st.text()),
    st.builds(Note, st.text(), st.sampled_from(["info", "warning"])),
)


@given(st.lists(st.tuples(st.floats(0, 30), events)))
def test_whatever_comes_each_line_is_one_line_and_no_command(steps):
    lines = written(steps)
    assert len(lines) <= len(steps)
    assert all(line[:2] in {"· ", "✓ ", "! "} and line.isprintable() for line in lines)


class Closed(io.StringIO):
    """A log that nobody takes; it knows how often somebody tried."""

    tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise BrokenPipeError


def test_a_log_that_nobody_takes_stops_nothing():
    stream = Closed()
    progress = console.ProgressDisplay(stream, Globals({}, Path()))
    for event in (StageStarted("rollout"), Note("hello")):
        progress(event)
    assert stream.tried == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ["· rollout      2 to do", "· hello", "! warning: careful", "✓ rollout      0.5"]),
        ({"progress": False}, ["· hello", "! warning: careful"]),
        ({"verbosity": -1}, ["! warning: careful"]),
    ],
)
def test_options_say_how_much_is_told(changes, told, capsys):
    settings = replace(Globals({}, Path()), **changes)
    with closing(console.ProgressDisplay(sys.stderr, settings)) as observer:
        for event in (
            *(StageStarted("rollout", 2), Note("hello"), Note("careful", "warning")),
            StageFinished("rollout", "0.5"),
        ):
            observer(event)
    output = capsys.readouterr()
    assert (output.out, output.err.splitlines()) == ("", told)


def drawn(*events: Event, close: bool = False) -> str:
    stream, environ = Terminal(), {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "80"}
    progress = console.ProgressDisplay(stream, Globals(environ, Path()), lambda: 0.0)
    for event in events:
        progress(event)
    if close:
        progress.close()
    return stream.getvalue()


def run_line(*events: Event, width: int = 200) -> str:
    clock = Clock()
    progress = console.ProgressDisplay(io.StringIO(), Globals({}, Path()), clock)
    for event in events:
        progress(event)
    clock.now += 10
    return progress.run_line(width)


def test_the_line_says_where_the_run_stands_and_what_it_consumed():
    assert run_line(STEP, *[CallPaid(1500, 0.03)] * 40) == (
        "step 3/12 epoch 1 · skill 0.675 · last merged · 40 calls 4.0/s · $1.20 · 60,000 tokens"
    )


PLACE, CALLS = "step 3/12 epoch 1", "1,000 calls 100.0/s"


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (100, f"{PLACE} · skill 0.675 · last merged · {CALLS} · $30.00 · 1,500,000 tokens"),
        (80, f"{PLACE} · skill 0.675 · last merged · {CALLS} · $30.00"),
        (70, f"{PLACE} · skill 0.675 · {CALLS} · $30.00"),
        (60, f"{PLACE} · {CALLS} · $30.00"),
        (40, f"{PLACE} · {CALLS}"),
    ],
)
def test_what_does_not_fit_is_left_out_as_a_whole(width, told):
    assert run_line(STEP, *[CallPaid(1500, 0.03)] * 1000, width=width) == told
    assert len(told) <= width


def test_an_unknown_price_is_not_called_nothing():
    told = run_line(CallPaid(10, 0.5), CallPaid(10, None), CallPaid(10, 0.5))
    assert told == "3 calls 18.0/min · 30 tokens"
    assert run_line(CallPaid(10, 0.003)) == "1 call 6.0/min · $0.0030 · 10 tokens"
    assert run_line(StageStarted("rollout", 3)) == ""  # nothing is known yet


def test_a_terminal_shows_the_line_while_there_are_bars_and_not_afterwards():
    begun = (STEP, CallPaid(10, None), StageStarted("rollout", 4))
    assert "step 3/12 epoch 1 · skill 0.675" in drawn(*begun)
    told = drawn(*begun, StageFinished("rollout", "0.500"), close=True)
    left = told[told.rindex("\x1b[2K") :]  # what was drawn before is erased
    assert "rollout" in left
    assert "skill 0.675" not in left
    assert max(map(len, re.split(r"[\r\n]", re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", told)))) <= 80


def test_a_bar_shows_the_count_and_the_detail():
    told = drawn(StageStarted("rollout", 4), StageAdvanced("rollout", "task-7"), close=True)
    assert all(part in told for part in ("rollout", "1/4", "task-7"))


def test_nothing_is_redrawn_where_a_person_types():
    working = (TerminalLent(), StageStarted("selection", 2), StageAdvanced("selection", "task-1"))
    assert drawn(*working) == ""
    told = drawn(*working, StageFinished("selection", "0.500"))
    assert "selection" in told
    assert "\x1b[2K" not in told


def test_no_line_is_wider_than_the_terminal():
    name = "a very long stage name"
    told = drawn(StageStarted(name, 1000), StageAdvanced(name, "long detail " * 20), close=True)
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", told))
    assert 60 < max(map(len, lines)) <= 80


def test_the_cursor_comes_back_when_the_last_stage_ends():
    both = (StageStarted("rollout", 4), StageStarted("reflect"), StageFinished("rollout"))
    assert CURSOR_SHOWN not in drawn(*both)
    told = drawn(*both, StageFinished("reflect", "3 edits"))
    assert CURSOR_SHOWN in told
    assert told.endswith("3 edits\n")


def test_closing_gives_the_terminal_back_amid_a_stage():
    told = drawn(StageStarted("rollout", 4), close=True)
    assert told.count(CURSOR_HIDDEN) == told.count(CURSOR_SHOWN) == 1
    once = (StageStarted("a", 1), StageAdvanced("a"), StageFinished("a", "0.5"))
    assert drawn(*once, *once).count("0.5") == 2


def test_markup_and_escapes_in_untrusted_text_are_shown_as_text():
    told = drawn(Note("[bold]x[/bold] \x1b]0;title\x07", "warning"))
    assert "warning: [bold]x[/bold] ]0;title" in told


ROWS = [("verdict", "merged"), ("because", "a rather long reason " * 8), ("", "goes on")]


def rows(stream: io.StringIO, **environ: str) -> str:
    with redirect_stdout(stream):
        console.print_rows(Globals({"TERM": "xterm", **environ}, Path()), "Step 1", ROWS)
    return stream.getvalue()


def table(*words: object, dispensable: tuple[str, ...] = (), **environ: str) -> list[str]:
    with redirect_stdout(io.StringIO()) as stream:
        console.print_table(Globals(environ, Path()), *words, dispensable=dispensable)
    return stream.getvalue().splitlines()


def test_labels_and_values_are_aligned_under_the_title():
    text = rows(io.StringIO())
    lines = text.splitlines()
    assert (lines[:2], lines[-1]) == (["Step 1", "verdict  merged"], "         goes on")
    # a file gets no trailing spaces, no colour and 80 columns, a terminal its own width
    assert not re.search(r" $|\x1b", text, re.MULTILINE)
    assert 70 < max(map(len, lines)) <= 80
    assert max(map(len, rows(io.StringIO(), COLUMNS="40").splitlines())) <= 40
    assert "\x1b[1m" in rows(Terminal())
    assert "\x1b" not in rows(Terminal(), TERM="dumb")
    with redirect_stdout(io.StringIO()) as stream:  # a long label leaves room for the values
        console.print_rows(Globals({}, Path()), "", [("a type " * 9, "value " * 9)])
    assert len(stream.getvalue().splitlines()) == 2


def test_the_last_column_takes_the_rest():
    lines = table(("n", "what"), [("1", "word " * 30)], "Title")
    assert lines[:2] == ["Title", "n  what"]
    assert all(line.startswith("   word") for line in lines[3:])


def test_columns_are_as_wide_as_what_is_in_them():
    rows = [("1", "a", "x"), ("10", "日本", "y"), ("", "", "z")]
    assert table(("n", "b", "what"), rows) == [
        "n   b     what",
        "1   a     x",
        "10  日本  y",
        "          z",
    ]
    rows, title = [("[bold]x[/bold]", ":smile: \x1b[31m\u202e")], "wider than all of the columns"
    assert table(("a", "b"), rows, title)[::2] == [title, "[bold]x[/bold]  :smile: [31m"]


def test_a_row_that_is_wrapped_stands_among_others():
    rows = [("1", "a"), ("2", "b"), ("3", "word " * 20), ("4", "two\nlines"), ("5", "e")]
    lines = [line[:5].rstrip() for line in table(("n", "what"), rows)]
    assert lines == ["n  wh", "1  a", "2  b", "3  wo", "   wo", "4  tw", "   li", "5  e"]


@pytest.mark.parametrize(
    ("columns", "shown"), [("80", "n least less what"), ("40", "n less what"), ("20", "n what")]
)
def test_where_room_is_short_dispensable_columns_are_left_out_in_their_order(columns, shown):
    cells, headings = [("1", "x" * 20, "y" * 20, "12")], ("n", "least", "less", "what")
    lines = table(headings, cells, dispensable=("least", "less"), COLUMNS=columns)
    assert lines[0].split() == shown.split()


@pytest.mark.parametrize(
    ("verdict", "colour"), [("merged, new best", "\x1b[32m"), ("reverted", "\x1b[33m")]
)
def test_a_verdict_has_its_colour_on_a_terminal(verdict, colour):
    terminal, settings = Terminal(), Globals({}, Path())
    display = console.ProgressDisplay(terminal, settings, Clock())
    display(StageFinished("gate", verdict))
    display.close()
    with redirect_stdout(terminal):
        console.print_rows(settings, "Step 1", [("verdict", verdict), ("", "a longer text")])
    assert terminal.getvalue().count(f"{colour}{verdict}\x1b[0m\n") == 2  # and no spaces after it
