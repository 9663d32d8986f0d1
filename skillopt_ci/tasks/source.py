"""Reading task files: from bytes to records that know their lines."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import TaskFileError

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Record:
    """One mapping of a task file, as it was written.

    ``line_of`` gives the line of one of its keys; ``name`` is the key under which the record
    itself stands, where the file is a mapping of records.
    """

    value: dict[str, object]
    file: Path
    line: int
    line_of: Callable[[str], int]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file; knows the line of every position."""

    file: Path
    text: str
    line_feeds: tuple[int, ...]

    def line_at(self, position: int) -> int:
        """Line number, from 1, of the character at ``position``."""
        return bisect_left(self.line_feeds, position) + 1


def read_source(file: Path) -> SourceText:
    """Read UTF-8 text, with or without a byte order mark.

    Raises :class:`TaskFileError` when the file cannot be read or a byte is not UTF-8.
    """
    try:
        data = file.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise TaskFileError(f"cannot be read: {error.strerror}", file=file) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TaskFileError(
            f"byte 0x{data[error.start]:02x} is not UTF-8", file=file, line=line
        ) from error
    return SourceText(file, text, tuple(match.start() for match in re.finditer("\n", text)))


def numbered_lines(source: SourceText) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1.

    Only line feeds separate lines: JSON strings may hold other Unicode line separators raw.
    """
    for number, line in enumerate(source.text.split("\n"), start=1):
        if line.strip():
            yield number, line.strip("\r")
