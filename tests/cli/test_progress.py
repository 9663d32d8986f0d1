import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from skillopt_ci.cli.options import Globals
from skillopt_ci.cli.progress import (
    NotesOnly,
    PlainProgress,
    RunLine,
    Stage,
    after,
    build_observer,
    count_text,
    finished_text,
    noted,
    rate_text,
    run_line_text,
    time_text,
)
from skillopt_ci.cli.rich_progress import RichProgress
from skillopt_ci.progress import (
    CallPaid,
    Event,
    Note,
    StageAdvanced,
    StageFinished,
    StageStarted,
    StepStarted,
)


def test_a_stage_counts_from_its_start_to_its_end() -> None:
    started = after({}, StageStarted("rollout", 2), 5.0)
    advanced = after(started, StageAdvanced("rollout", "t1"), 6.0)
    assert advanced == {"rollout": Stage("rollout", 2, 5.0, 1, "t1")}
    assert after(advanced, StageFinished("rollout"), 7.0) == {}


def test_stages_overlap() -> None:
    both = after(after({}, StageStarted("a"), 0.0), StageStarted("b"), 1.0)
    assert after(both, StageFinished("a"), 2.0) == {"b": Stage("b", 0, 1.0)}


def test_an_unannounced_stage_counts_too() -> None:
    assert after({}, StageAdvanced("merge"), 3.0) == {"merge": Stage("merge", 0, 3.0, 1)}


@pytest.mark.parametrize(
    ("stage", "text"), [(Stage("a", 4, 0, 1), "1 of 4"), (Stage("a", 0, 0, 1), "1")]
)
def test_count(stage: Stage, text: str) -> None:
    assert count_text(stage) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (72, "1 min 12 s"), (7380, "2 h 03 min")]
)
def test_time(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("done", "seconds", "text"),
    [(0, 5, ""), (3, 0, ""), (30, 20, "1.5/s"), (3, 20, "9.0/min")],
)
def test_rate(done: int, seconds: float, text: str) -> None:
    assert rate_text(done, seconds) == text


@pytest.mark.parametrize(
    ("summary", "started", "text"),
    [("4 edits", 0.0, "4 edits (12 s)"), ("4 edits", 11.9, "4 edits"), ("", 11.9, "done")],
)
def test_a_finished_stage_tells_its_summary_and_its_time(
    summary: str, started: float, text: str
) -> None:
    assert finished_text(StageFinished("a", summary), Stage("a", 0, started), 12.0) == text


def test_a_stage_that_never_started_took_no_time() -> None:
    assert finished_text(StageFinished("gate", "merged"), None, 12.0) == "merged"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def written(steps: Iterable[tuple[float, Event]]) -> list[str]:
    stream, clock = io.StringIO(), Clock()
    progress = PlainProgress(stream, clock)
    for seconds, event in steps:
        clock.now += seconds
        progress(event)
    return stream.getvalue().split("\n")[:-1]


def test_a_stage_writes_its_start_and_its_end() -> None:
    steps = [(0, StageStarted("rollout", 3)), (31, StageFinished("rollout", "0.5 n=3"))]
    assert written(steps) == ["· rollout     3 to do", "✓ rollout     0.5 n=3 (31 s)"]


def test_between_them_there_is_at_most_one_line_in_ten_seconds() -> None:
    steps: list[tuple[float, Event]] = [(0, StageStarted("rollout", 100))]
    steps += [(1, StageAdvanced("rollout", f"t{i}")) for i in range(1, 25)]
    assert written(steps)[1:] == [
        "· rollout     10 of 100 after 10 s: t10",
        "· rollout     20 of 100 after 20 s: t20",
    ]


def test_notes_are_written_at_once() -> None:
    steps = [(0, Note("going on with step 3")), (0, Note("no price set", "warning"))]
    assert written(steps) == ["· going on with step 3", "! warning: no price set"]


events: st.SearchStrategy[Event] = st.one_of(
    st.builds(StageStarted, st.text(), st.integers(0, 9)),
    st.builds(StageAdvanced, st.text(), st.text()),
    st.builds(StageFinished, st.text(), st.text()),
    st.builds(Note, st.text(), st.sampled_from(["info", "warning"])),
)


@given(st.lists(st.tuples(st.floats(0, 30), events)))
def test_whatever_comes_each_line_is_one_line_and_no_command(
    steps: list[tuple[float, Event]],
) -> None:
    lines = written(steps)
    assert len(lines) <= len(steps)
    assert all(line[:2] in {"· ", "✓ ", "! "} and line.isprintable() for line in lines)


class Closed(io.StringIO):
    """A log that nobody takes; it knows how often somebody tried."""

    tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise BrokenPipeError


def test_a_log_that_nobody_takes_stops_nothing() -> None:
    stages, notes = Closed(), Closed()
    progress, noting = PlainProgress(stages, Clock()), NotesOnly(notes, quiet=False)
    for _ in range(2):
        progress(StageStarted("rollout"))
        noting(Note("hello"))
    assert (stages.tried, notes.tried) == (2, 2)


def test_notes_only_leaves_progress_out() -> None:
    assert list(notes_only(quiet=False)) == ["· hello", "! warning: careful"]


def test_plain_progress_quiet_leaves_warnings() -> None:
    assert list(notes_only(quiet=True)) == ["! warning: careful"]


def notes_only(*, quiet: bool) -> Iterator[str]:
    stream = io.StringIO()
    observer = NotesOnly(stream, quiet=quiet)
    for event in (StageStarted("a"), Note("hello"), Note("careful", "warning"), StageFinished("a")):
        observer(event)
    yield from stream.getvalue().splitlines()


STEP = StepStarted(3, 12, 1, 0.675, 40, "merged")


def text(*events: Event, now: float = 10.0) -> str:
    return run_line_text(reduce(noted, events, RunLine(0.0)), now)


def test_the_line_says_where_the_run_stands_and_what_it_consumed() -> None:
    assert text(STEP, *[CallPaid(1500, 0.03)] * 40) == (
        "step 3/12 epoch 1 · skill 0.675 · last merged · 40 calls 4.0/s · $1.20 · 60k tokens"
    )


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (
            90,
            (
                "step 3/12 epoch 1 · skill 0.675 · last merged · "
                "1,000 calls 100.0/s · $30.00 · 1.5M tokens"
            ),
        ),
        (80, "step 3/12 epoch 1 · skill 0.675 · last merged · 1,000 calls 100.0/s · $30.00"),
        (70, "step 3/12 epoch 1 · skill 0.675 · 1,000 calls 100.0/s · $30.00"),
        (60, "step 3/12 epoch 1 · 1,000 calls 100.0/s · $30.00"),
        (40, "step 3/12 epoch 1 · 1,000 calls 100.0/s"),
    ],
)
def test_what_does_not_fit_is_left_out_as_a_whole(width: int, told: str) -> None:
    line = reduce(noted, [STEP, *[CallPaid(1500, 0.03)] * 1000], RunLine(0.0))
    assert run_line_text(line, 10.0, width) == told
    assert len(told) <= width


def test_an_unknown_price_is_not_called_nothing() -> None:
    told = text(CallPaid(10, 0.5), CallPaid(10, None), CallPaid(10, 0.5))
    assert told == "3 calls 18.0/min · 30 tokens"


def test_before_anything_is_known_there_is_no_line() -> None:
    assert text(StageStarted("rollout", 3)) == ""


@pytest.mark.parametrize(("tokens", "shown"), [(999, "999"), (1000, "1k"), (2_500_000, "2.5M")])
def test_many_tokens_are_rounded(tokens: int, shown: str) -> None:
    assert text(CallPaid(tokens, None)).endswith(f"· {shown} tokens")


def test_a_terminal_shows_the_line_while_there_are_bars_and_not_afterwards() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, no_color=True, _environ={})
    progress = RichProgress(console, lambda: 0.0)
    for event in (STEP, CallPaid(10, None), StageStarted("rollout", 4)):
        progress(event)
    assert isinstance(console.file, io.StringIO)
    assert "step 3/12 epoch 1 · skill 0.675" in console.file.getvalue()
    progress(StageFinished("rollout", "0.500"))
    progress.close()
    drawn = console.file.getvalue()
    left = drawn[drawn.rindex("\x1b[2K") :]  # what was drawn before is erased
    assert "rollout" in left
    assert "skill 0.675" not in left
    assert max(map(len, re.split(r"[\r\n]", re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", drawn)))) <= 80


def test_a_log_says_once_where_the_step_begins() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, lambda: 0.0)
    for event in (STEP, CallPaid(10, None), CallPaid(10, None)):
        progress(event)
    assert stream.getvalue() == (
        "· step        3 of 12, epoch 1: the skill scores 0.675 on 40 tasks, the last step merged\n"
    )


EVENTS = (StageStarted("rollout", 2), Note("hello"), Note("careful", "warning"))


@pytest.fixture
def settings() -> Globals:
    return replace(Globals.of_process(), environ={})


def told(settings: Globals, capsys: pytest.CaptureFixture[str]) -> str:
    with build_observer(settings) as observer:
        for event in (*EVENTS, StageFinished("rollout", "0.5")):
            observer(event)
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def test_a_log_gets_plain_lines(settings: Globals, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(settings, capsys).splitlines()
    assert lines[0] == "· rollout     2 to do"
    assert lines[-1] == "✓ rollout     0.5"


def test_no_progress_leaves_notes(settings: Globals, capsys: pytest.CaptureFixture[str]) -> None:
    quieter = replace(settings, progress=False)
    assert told(quieter, capsys) == "· hello\n! warning: careful\n"


def test_live_quiet_leaves_warnings(settings: Globals, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(replace(settings, verbosity=-1), capsys) == "! warning: careful\n"
