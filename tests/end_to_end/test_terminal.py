"""What a person sees on a terminal: a real one, of 80 columns and of 60."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Checkout

pytestmark = pytest.mark.end_to_end

_ESCAPE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


def seen(checkout: Checkout, *words: str, columns: int = 80, **env: str) -> str:
    """All that a command draws on a terminal."""
    child, screen = pty.fork()
    if child == 0:
        os.chdir(checkout.folder)
        settings = {"DEMO_KEY": "sk-demo-key", "TERM": "xterm-256color", **env}
        command = [sys.executable, "-m", "skillopt_ci", *words]
        os.execve(sys.executable, command, {**os.environ, **settings})
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    drawn = b""
    while True:
        try:
            part = os.read(screen, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        drawn += part
    os.close(screen)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, drawn.decode()
    return drawn.decode()


def lines(drawn: str) -> list[str]:
    return re.split(r"[\r\n]+", _ESCAPE.sub("", drawn))


def test_a_run_shows_where_it_stands_and_leaves_only_calm_lines(checkout: Checkout) -> None:
    drawn = seen(checkout, "run", "-o", "evaluation.eval_test=false", "-o", "train.num_epochs=1")
    told = lines(drawn)
    standing = [line for line in told if "step 2/2 epoch 1 · skill 0.250 · last merged · " in line]
    assert standing
    assert re.search(r"\d+ calls? .*· \d+ tokens", "".join(standing))
    assert max(map(len, told)) <= 80
    assert drawn.count("\x1b[?25l") == drawn.count("\x1b[?25h")


def test_a_narrow_terminal_shows_whole_figures(checkout: Checkout) -> None:
    drawn = seen(checkout, "run", "-o", "evaluation.eval_test=false", columns=60)
    told = [line.rstrip() for line in lines(drawn)]
    standing = [line for line in told if re.match(r"step \d/4 epoch \d · ", line)]
    assert any(re.search(r"· \d+ calls? [\d.,]+/(s|min)", line) for line in standing)
    assert not any("…" in line for line in standing)
    assert max(map(len, told)) <= 60


@pytest.mark.parametrize("words", [("status",), ("log",), ("show", "1"), ("diff",)])
def test_readers_fit_the_terminal_with_and_without_colour(
    checkout: Checkout, words: tuple[str, ...]
) -> None:
    checkout.step()
    coloured, plain = seen(checkout, *words), seen(checkout, *words, NO_COLOR="1")
    assert all(len(line) <= 80 for line in lines(coloured))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)
    assert max(len(line) for line in lines(plain)) <= 80
