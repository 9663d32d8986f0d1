"""A process that stays answers what it was asked, whatever happens, and never lingers."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from skillopt_ci.git.process import Conversation, Ended

#: Answers each line with its process id and the line.
ECHO = ("sh", "-c", 'while read -r line; do echo "$$ $line"; done')


def read_line(answers: IO[bytes]) -> tuple[int, bytes]:
    line = answers.readline()
    if not line:
        raise EOFError
    process, _, said = line.rstrip(b"\n").partition(b" ")
    return int(process), said


def is_gone(process: int) -> bool:
    """Tell whether there is no such process, not even a zombie."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_one_process_answers_all_requests() -> None:
    echo = Conversation(ECHO, os.environ)
    answers = [echo.ask(f"{number}\n".encode(), read_line) for number in range(3)]
    assert len({process for process, _ in answers}) == 1
    assert [said for _, said in answers] == [b"0", b"1", b"2"]


def test_killed_process_is_begun_again() -> None:
    echo = Conversation(ECHO, os.environ)
    first, _ = echo.ask(b"one\n", read_line)
    os.kill(first, signal.SIGKILL)
    second, said = echo.ask(b"two\n", read_line)
    assert said == b"two"
    assert second != first


def test_answer_that_was_interrupted_is_not_taken_for_the_next() -> None:
    def interrupt(answers: IO[bytes]) -> tuple[int, bytes]:
        raise KeyboardInterrupt

    echo = Conversation(ECHO, os.environ)
    first, _ = echo.ask(b"one\n", read_line)
    with pytest.raises(KeyboardInterrupt):
        echo.ask(b"two\n", interrupt)
    assert is_gone(first)
    assert echo.ask(b"three\n", read_line)[1] == b"three"


def test_process_that_always_ends_is_asked_twice_and_its_words_are_told(tmp_path: Path) -> None:
    script = 'read -r line; echo "$line" >> asked; echo no such luck >&2; exit 1'
    stubborn = Conversation(("env", "-C", str(tmp_path), "sh", "-c", script), os.environ)
    with pytest.raises(Ended, match=r"^no such luck$"):
        stubborn.ask(b"please\n", read_line)
    assert (tmp_path / "asked").read_text() == "please\nplease\n"


def test_complaints_without_end_do_not_block() -> None:
    noisy = Conversation(
        ("sh", "-c", 'while read -r line; do seq 40000 >&2; echo "$$ $line"; done'), os.environ
    )
    assert noisy.ask(b"one\n", read_line)[1] == b"one"


def test_process_ends_when_nobody_can_ask_any_more() -> None:
    echo = Conversation(ECHO, os.environ)
    process, _ = echo.ask(b"one\n", read_line)
    del echo
    assert is_gone(process)


def test_process_ends_with_ours_even_if_that_is_killed(repository: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from skillopt_ci.ledger import store\n"
        "from skillopt_ci.git.process import Git\n"
        "git = Git(Path(sys.argv[1])); store.find(git, 'HEAD')\n"
        "partner = next(iter(git._conversations.values()))._partner\n"
        "print(partner.process.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, repository], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as trainer:
        git = os.pidfd_open(int(trainer.stdout.readline()))
        trainer.kill()
        assert select.select([git], [], [], 30)[0], "git is still there"
        os.close(git)
