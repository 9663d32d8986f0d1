"""The terminal of this process, for a person who works on tasks."""

import asyncio
import os
from dataclasses import dataclass, field
from typing import TextIO

_AT_ONCE = 65536


@dataclass(frozen=True, slots=True)
class StreamTerminal:
    """Reads lines from one stream and writes to another, standard error by custom.

    Nothing is read before somebody asks, and an `ask` that is cancelled leaves nothing behind that
    the process would have to wait for, as a thread in `readline` would be.
    """

    source: TextIO
    shown: TextIO
    _typed: bytearray = field(default_factory=bytearray, repr=False, compare=False)

    def say(self, text: str) -> None:
        """Write ``text`` and a line break."""
        self.shown.write(f"{text}\n")
        self.shown.flush()

    async def ask(self, prompt: str) -> str | None:
        """Return the next line without its break, None at the end."""
        self.shown.write(prompt)
        self.shown.flush()
        try:
            descriptor = self.source.fileno()
        except (OSError, ValueError):  # a text in memory: it has no descriptor, and no one waits
            line = self.source.readline()
            return line.removesuffix("\n") if line else None
        return await self._line(descriptor)

    async def _line(self, descriptor: int) -> str | None:
        while b"\n" not in self._typed:
            await _readable(descriptor)
            part = os.read(descriptor, _AT_ONCE)
            if not part:
                break
            self._typed.extend(part)
        if not self._typed:
            return None
        line, _, rest = bytes(self._typed).partition(b"\n")
        self._typed[:] = rest
        return line.decode(self.source.encoding or "utf-8", "replace").removesuffix("\r")


async def _readable(descriptor: int) -> None:
    """Wait until there is something to read; files always have it, or their end."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a file cannot be waited for
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
