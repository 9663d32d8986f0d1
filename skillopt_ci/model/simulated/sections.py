"""Markdown prompts taken apart: headings, and the fenced data below them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"(#{2,6}) +(.*\S)")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands below it up to the next heading of any level.

    ``data`` is the text inside fences, or all text where there is no fence; ``blocks`` has each
    fence's text with the line that introduces it.
    """

    level: int
    title: str
    text: str
    data: str
    blocks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    fenced: bool
    marker: bool = False


def sections(prompt: str) -> tuple[Section, ...]:
    """Return the sections in order; headings inside fences are data, not structure."""
    found: list[tuple[int, str, list[_Line]]] = []
    for line in _lines(prompt):
        heading = None if line.fenced else _HEADING.fullmatch(line.text.strip())
        if heading:
            found.append((len(heading[1]), heading[2], []))
        elif found:
            found[-1][2].append(line)
    return tuple(
        Section(level, title, *_texts(lines), tuple(_blocks(lines)))
        for level, title, lines in found
    )


def _texts(lines: Iterable[_Line]) -> tuple[str, str]:
    kept = [line for line in lines if not line.marker]
    everything = "\n".join(line.text for line in kept).strip()
    fenced = "\n".join(line.text for line in kept if line.fenced)
    return everything, fenced.strip("\n") or everything


def _blocks(lines: Iterable[_Line]) -> Iterator[tuple[str, str]]:
    introduction = ""
    for fenced, group in groupby(lines, key=lambda line: line.fenced):
        texts = [line.text for line in group if not line.marker]
        if fenced:
            yield introduction, "\n".join(texts)
        else:
            introduction = next((text for text in reversed(texts) if text.strip()), "")


def _lines(prompt: str) -> Iterator[_Line]:
    """Tell fenced lines from others by CommonMark's rule for code fences."""
    fence = ""
    for text in prompt.split("\n"):
        marker = _FENCE.match(text)
        if fence and _closes(text, fence):
            fence = ""
            yield _Line(text, fenced=True, marker=True)
        elif not fence and marker:
            fence = marker[1]
            yield _Line(text, fenced=True, marker=True)
        else:
            yield _Line(text, fenced=bool(fence))


def _closes(text: str, fence: str) -> bool:
    stripped = text.strip()
    return len(stripped) >= len(fence) and set(stripped) == {fence[0]}
