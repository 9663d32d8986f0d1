"""The terminal of this process, for a person who works on tasks."""

import asyncio
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, slots=True)
class StreamTerminal:
    """Reads lines from one stream and writes to another, standard error by custom.

    A line that is being typed when the time is up goes to the next task: no thread can be made to
    stop reading.
    """

    source: TextIO
    shown: TextIO

    def say(self, text: str) -> None:
        """Write ``text`` and a line break."""
        self.shown.write(f"{text}\n")
        self.shown.flush()

    async def ask(self, prompt: str) -> str | None:
        """Return the next line without its break, None at the end."""
        self.shown.write(prompt)
        self.shown.flush()
        line = await asyncio.to_thread(self.source.readline)
        return line.removesuffix("\n") if line else None
