"""The texts that the skill had one after the other, and which of them each line came from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher


@dataclass(frozen=True, slots=True)
class Version:
    """A text of the skill. ``anchor`` is the section of the report that tells how it came about."""

    label: str
    text: str
    anchor: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive lines of the newest text that came with the same version (its index)."""

    origin: int
    first_line: int
    lines: tuple[str, ...]


def passages(versions: Sequence[Version]) -> tuple[Passage, ...]:
    """The newest text, divided by where its lines come from: a line is as old as it is unchanged.

    Lines are matched as diffs match them, version by version; a blank line belongs to the one
    before it. The last of ``versions`` is the newest. No version gives no passage.
    """
    origins = _origins([version.text.split("\n") for version in versions])
    if not versions:
        return ()
    lines = versions[-1].text.split("\n")
    if lines[-1] == "":
        lines, origins = lines[:-1], origins[:-1]
    for index, line in enumerate(lines[1:], start=1):
        if not line.strip():
            origins[index] = origins[index - 1]
    return tuple(_grouped(lines, origins))


def _origins(texts: Sequence[list[str]]) -> list[int]:
    """For each line of the last text the index of the text that brought it."""
    origins: list[int] = []
    before: list[str] = []
    for index, lines in enumerate(texts):
        found = [index] * len(lines)
        for block in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks():
            for offset in range(block.size):
                found[block.b + offset] = origins[block.a + offset]
        origins, before = found, lines
    return origins


def _grouped(lines: Sequence[str], origins: Sequence[int]) -> Iterator[Passage]:
    start = 0
    for end in range(1, len(lines) + 1):
        if end == len(lines) or origins[end] != origins[start]:
            yield Passage(origins[start], start + 1, tuple(lines[start:end]))
            start = end


@dataclass(frozen=True, slots=True)
class Library:
    """Many similar texts in little room: each text as indices into the lines of all of them."""

    lines: tuple[str, ...]
    texts: tuple[tuple[int, ...], ...]


def library(texts: Sequence[str]) -> Library:
    """Store ``texts``; a text is its lines joined by line feeds."""
    known: dict[str, int] = {}
    stored = tuple(
        tuple(known.setdefault(line, len(known)) for line in text.split("\n")) for text in texts
    )
    return Library(tuple(known), stored)
