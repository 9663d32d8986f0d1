import io
import re

import pytest
from rich.console import Console

from skillopt_ci.cli.rich_progress import RichProgress
from skillopt_ci.progress import Note, StageAdvanced, StageFinished, StageStarted, TerminalLent

CURSOR_HIDDEN, CURSOR_SHOWN = "\x1b[?25l", "\x1b[?25h"


@pytest.fixture
def console() -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=80,
        no_color=True,
        highlight=False,
        _environ={},
    )


@pytest.fixture
def progress(console: Console) -> RichProgress:
    return RichProgress(console, lambda: 0.0)


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_bar_shows_the_count_and_the_detail(console: Console, progress: RichProgress) -> None:
    progress(StageStarted("rollout", 4))
    progress(StageAdvanced("rollout", "task-7"))
    progress.close()
    assert "rollout" in drawn(console)
    assert "1/4" in drawn(console)
    assert "task-7" in drawn(console)


def test_nothing_is_redrawn_where_a_person_types(console: Console, progress: RichProgress) -> None:
    progress(TerminalLent())
    progress(StageStarted("selection", 2))
    progress(StageAdvanced("selection", "task-1"))
    assert drawn(console) == ""
    progress(StageFinished("selection", "0.500"))
    assert "selection" in drawn(console)
    assert "\x1b[2K" not in drawn(console)


def test_no_line_is_wider_than_the_terminal(console: Console, progress: RichProgress) -> None:
    progress(StageStarted("a very long stage name", 1000))
    progress(StageAdvanced("a very long stage name", "long detail " * 20))
    progress.close()
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", drawn(console)))
    assert 60 < max(map(len, lines)) <= 80


def test_the_cursor_comes_back_when_the_last_stage_ends(
    console: Console, progress: RichProgress
) -> None:
    progress(StageStarted("rollout", 4))
    progress(StageStarted("reflect"))
    progress(StageFinished("rollout"))
    assert CURSOR_SHOWN not in drawn(console)
    progress(StageFinished("reflect", "3 edits"))
    assert CURSOR_SHOWN in drawn(console)
    assert drawn(console).endswith("3 edits\n")


def test_closing_gives_the_terminal_back_amid_a_stage(
    console: Console, progress: RichProgress
) -> None:
    progress(StageStarted("rollout", 4))
    progress.close()
    assert drawn(console).count(CURSOR_HIDDEN) == drawn(console).count(CURSOR_SHOWN) == 1


def test_a_stage_can_begin_again(console: Console, progress: RichProgress) -> None:
    for _ in range(2):
        progress(StageStarted("evaluate", 1))
        progress(StageAdvanced("evaluate"))
        progress(StageFinished("evaluate", "0.5"))
    assert drawn(console).count("0.5") == 2


def test_markup_and_escapes_in_untrusted_text_are_shown_as_text(
    console: Console, progress: RichProgress
) -> None:
    progress(Note("[bold]x[/bold] \x1b]0;title\x07", "warning"))
    assert "warning: [bold]x[/bold] ]0;title" in drawn(console)
