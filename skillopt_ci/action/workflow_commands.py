"""Workflow commands: lines by which a job speaks to the runner that reads its log.

Everything is written to one stream: the runner reads both of a process, and across two of them
nobody could tell what it sees first, a command or the text that must not be one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TextIO

from skillopt_ci.sanitize import harmless_line

Level = Literal["notice", "warning", "error"]

#: GitHub shows no more of one message.
_LONGEST = 4_000


def escape_data(text: str) -> str:
    """``text`` as the part of a command after the second ``::``."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """``text`` as the value of a command's property."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def command(name: str, text: str = "", **properties: str) -> str:
    """A workflow command; properties without a value are left out."""
    given = [f"{key}={escape_property(value)}" for key, value in properties.items() if value]
    return f"::{' '.join([name, ','.join(given)]).strip()}::{escape_data(text)}"


@dataclass(frozen=True, slots=True)
class JobLog:
    """The job's log. ``token`` makes words that nobody can guess."""

    stream: TextIO
    token: Callable[[], str]

    def say(self, text: str) -> None:
        """Write a line of our own."""
        self._write(harmless_line(text))

    def mask(self, secret: str) -> None:
        """Have the runner hide ``secret`` from here on, each of its lines by itself."""
        for line in secret.splitlines():
            if line.strip():
                self._write(command("add-mask", line))

    def annotate(
        self,
        level: Level,
        message: str,
        *,
        title: str = "",
        file: PurePath | None = None,
        line: int | None = None,
    ) -> None:
        """Show ``message`` on the run's page and, if a file is given, at that line of it."""
        place = {
            "file": "" if file is None else str(file),
            "line": "" if file is None or line is None else str(line),
        }
        self._write(command(level, message[:_LONGEST], title=title, **place))

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold what is written inside; groups do not nest."""
        self._write(f"::group::{harmless_line(title)}")
        try:
            yield
        finally:
            self._write("::endgroup::")

    @contextmanager
    def untrusted(self) -> Iterator[TextIO]:
        """Give a stream on which nothing is taken for a command."""
        token = self.token()
        self._write(command("stop-commands", token))
        try:
            yield self.stream
        finally:
            # text that ended in the middle of a line must not swallow the token
            self._write(f"\n::{token}::")

    def _write(self, line: str) -> None:
        self.stream.write(f"{line}\n")
        self.stream.flush()
