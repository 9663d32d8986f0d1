"""What a person sees on a terminal: a real one, of 80 columns and of 60."""

import fcntl
import os
import pty
import re
import struct
import termios

import forked
import pytest

from tests.conftest import Checkout

pytestmark = pytest.mark.end_to_end

_ESCAPE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


def begun(
    checkout: Checkout, *words: str, columns: int = 80, **env: str
) -> tuple[forked.Process, int]:
    """Start a command on a terminal; return its process and the terminal's other end."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    unsized = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}}
    settings = {**unsized, "DEMO_KEY": "sk-demo-key", "TERM": "xterm-256color", **env}
    child = forked.Process(["-m", "skillopt_ci", *words], checkout.folder, settings, [terminal] * 3)
    os.close(terminal)
    return child, screen


def drawn_until(screen: int, end: str | None = None) -> str:
    """What is drawn up to ``end``, or to the end of the command."""
    drawn = b""
    while end is None or end not in drawn.decode(errors="replace"):
        try:
            part = os.read(screen, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        drawn += part
    return drawn.decode(errors="replace")


def seen(checkout: Checkout, *words: str, columns: int = 80, **env: str) -> str:
    child, screen = begun(checkout, *words, columns=columns, **env)
    drawn = drawn_until(screen)
    os.close(screen)
    assert child.wait() == 0, drawn
    return drawn


def lines(drawn: str) -> list[str]:
    return re.split(r"[\r\n]+", _ESCAPE.sub("", drawn))


def test_a_run_shows_where_it_stands_and_leaves_only_calm_lines(checkout):
    drawn = seen(checkout, "run", "-o", "evaluation.eval_test=false", "-o", "train.num_epochs=1")
    told = lines(drawn)
    standing = [line for line in told if "step 2/2 epoch 1 · skill 0.250 · last merged · " in line]
    assert standing
    assert re.search(r"\d+ calls? .*· \d+ tokens", "".join(standing))
    assert max(map(len, told)) <= 80
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h")


def test_a_narrow_terminal_shows_whole_figures(checkout):
    drawn = seen(checkout, "run", "-o", "evaluation.eval_test=false", columns=60)
    told = [line.rstrip() for line in lines(drawn)]
    standing = [line for line in told if re.match(r"step \d/4 epoch \d · ", line)]
    assert any(re.search(r"· \d+ calls? [\d.,]+/(s|min)", line) for line in standing)
    assert not any("…" in line for line in standing)
    assert max(map(len, told)) <= 60


def test_readers_fit_the_terminal_with_and_without_colour(checkout):
    checkout.step()
    for words in (("status",), ("log",), ("show", "1"), ("diff",)):
        coloured, plain = seen(checkout, *words), seen(checkout, *words, NO_COLOR="1")
        assert all(len(line) <= 80 for line in lines(coloured)), words
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain), words
        assert max(len(line) for line in lines(plain)) <= 80, words


def test_a_person_types_undisturbed_and_can_leave(checkout):
    """Nothing is drawn over a line that is being typed, and Ctrl-C does not wait for its end."""
    words = ("eval", "--split", "selection", "initial", "-o", "rollout.solver={type: human}")
    child, screen = begun(checkout, *words)
    drawn = drawn_until(screen, "$ ")
    os.write(screen, b"submit half an")
    drawn += drawn_until(screen, "half an")
    os.write(screen, b" answer\n")
    drawn += drawn_until(screen, "$ ")
    assert "$ submit half an answer" in drawn
    assert "\x1b[?25l" not in drawn  # what is redrawn hides the cursor first
    os.write(screen, b"submit half\x03")
    assert "interrupted" in drawn_until(screen)
    os.close(screen)
    assert child.wait() == 130
