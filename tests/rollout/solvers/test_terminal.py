"""Lines of a person: from a terminal, a pipe, a file, a text."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from typing import TextIO

from skillopt_ci.agents.manual import StreamTerminal

SAID = ["ls -la", "", "submit 4 \u20ac", "and no break", None, None]
TYPED = "ls -la\n\nsubmit 4 \u20ac\r\nand no break"


def lines(source: TextIO) -> list[str | None]:
    async def asked() -> list[str | None]:
        terminal = StreamTerminal(source, io.StringIO())
        return [await terminal.ask("$ ") for _ in SAID]

    return asyncio.run(asked())


def test_a_text_in_memory_is_read_line_by_line():
    assert lines(io.StringIO(TYPED, newline=None)) == SAID


def test_a_file_is_read_line_by_line(tmp_path):
    (tmp_path / "typed").write_bytes(TYPED.encode())
    with (tmp_path / "typed").open(encoding="utf-8") as source:
        assert lines(source) == SAID


def test_a_pipe_is_read_line_by_line_however_it_is_filled():
    reading, writing = os.pipe()

    def fill() -> None:
        for byte in TYPED.encode():
            os.write(writing, bytes([byte]))
        os.close(writing)

    with os.fdopen(reading, encoding="utf-8") as source:
        filler = threading.Thread(target=fill)
        filler.start()
        assert lines(source) == SAID
        filler.join()


def test_who_gives_up_waits_for_nobody_and_takes_no_line_away():
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as source, os.fdopen(writing, "w") as keyboard:
        terminal = StreamTerminal(source, io.StringIO())

        async def given_up() -> None:
            waiting = asyncio.create_task(terminal.ask("$ "))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()

        asyncio.run(given_up())  # would hang if a thread still read
        keyboard.write("submit late\n")
        keyboard.flush()
        assert asyncio.run(terminal.ask("$ ")) == "submit late"
