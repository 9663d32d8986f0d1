import io
import re
from functools import reduce

import pytest
from rich.console import Console

from skillopt_ci.cli.progress import PlainProgress, RunLine, noted, run_line_text
from skillopt_ci.cli.rich_progress import RichProgress
from skillopt_ci.progress import CallPaid, Event, StageFinished, StageStarted, StepStarted

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
