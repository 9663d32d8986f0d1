"""The parts of a document that edits of a step must not touch.

These are the frontmatter, and regions between marker comments that other stages write.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

from skillopt_ci.skill.document import ended, fence_closed, frontmatter_end, line_ending, sha256


class Region(NamedTuple):
    start: str
    end: str


SLOW_UPDATE = Region("<!-- SLOW_UPDATE_START -->", "<!-- SLOW_UPDATE_END -->")
APPENDIX = Region("<!-- APPENDIX_START -->", "<!-- APPENDIX_END -->")
REGIONS = (SLOW_UPDATE, APPENDIX)

_MARKER = re.compile("|".join(map(re.escape, chain.from_iterable(REGIONS))))


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int
    #: A marker without its partner.
    lone: bool = False


def markers(text: str, region: Region) -> list[Span]:
    """The region's blocks, each from a start marker to the next end marker, and lone markers."""
    closed = len(text) - len(text.rpartition(region.end)[2])
    blocks = re.compile(f"{region.start}.*?{region.end}|{region.end}", re.DOTALL)
    # Search for lone starts by themselves: from each, a search for its end would take long.
    lone = re.compile(region.start).finditer(text, closed)
    found = (*blocks.finditer(text, 0, closed), *lone)
    return [Span(*one.span(), lone=one[0] in region) for one in found]


def protected_spans(text: str) -> tuple[Span, ...]:
    """The spans that edits must not touch: frontmatter, regions, lone markers; sorted, disjoint."""
    spans = [span for region in REGIONS for span in markers(text, region)]
    if end := frontmatter_end(text):
        spans.append(Span(0, end))
    united: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, each.end)):
        if united and span.start < united[-1].end:
            united[-1] = Span(united[-1].start, max(united[-1].end, span.end))
        else:
            united.append(span)
    return tuple(united)


def protected_parts(text: str) -> list[str]:
    return [text[span.start : span.end] for span in protected_spans(text)]


# Cached, since every attempt at every task calls this for the same few texts.
@lru_cache(maxsize=16)
def as_read(text: str) -> str:
    """The text as the target reads it, without empty regions: a placeholder changes no score."""
    for region in REGIONS:
        if region_text(text, region) == "":
            text = without_region(text, region)
    return text


def strip_markers(text: str) -> str:
    """Remove every marker, also those that a removal creates by joining text."""
    while (stripped := _MARKER.sub("", text)) != text:
        text = stripped
    return text


def region_text(text: str, region: Region) -> str | None:
    """The stripped content of the region's first block; None if there is no block."""
    blocks = (one for one in markers(text, region) if not one.lone)
    found = (text[one.start + len(region.start) : one.end - len(region.end)] for one in blocks)
    return next(map(str.strip, found), None)


def with_region(text: str, region: Region, inner: str) -> str:
    """The text with a single block of the region, containing ``inner``, at its end."""
    ending = line_ending(text)
    before = without_region(text, region).replace(ending, "\n").rstrip()
    plain = strip_markers(inner.replace("\r\n", "\n")).strip()
    before = fence_closed(before).rstrip() if plain else before
    block = "\n".join(filter(None, (region.start, plain, region.end)))
    return ended(f"{before}\n\n{block}" if before else block).replace("\n", ending)


def without_region(text: str, region: Region) -> str:
    """The text without the region's blocks and markers and without blank lines around them."""
    ending = line_ending(text)
    left = text.replace(ending, "\n")
    # Repeat, because a removal may join text into another marker.
    while spans := markers(left, region):
        kept = [left[: spans[0].start]]
        between = (left[one.end : other.start] for one, other in pairwise(spans))
        for piece in (*(one for one in between if one.strip("\n")), left[spans[-1].end :]):
            before, after = kept[-1].rstrip("\n"), piece.lstrip("\n")
            blank = max(len(kept[-1]) - len(before), len(piece) - len(after))
            kept[-1:] = [before, "\n" * min(2, blank) + after]
        left = ended("".join(kept))
        text = left.replace("\n", ending)
    return text


def restore_regions(before: str, after: str) -> str:
    """``after`` with exactly the protected parts of ``before``, byte for byte.

    If they changed, the frontmatter goes to the start of the document and the other parts to its
    end. If that does not preserve them (text and region may form a marker), returns ``before``.
    """
    if (ending := line_ending(before)) != "\n":
        after = after.replace(ending, "\n").replace("\n", ending)
    if protected_parts(after) == protected_parts(before):
        return after
    parts = protected_parts(before.replace(ending, "\n"))
    head = parts[:1] if frontmatter_end(before) else []
    pieces = (*head, unprotected(after.replace(ending, "\n")), *parts[len(head) :])
    restored = ended("\n\n".join(filter(None, pieces))).replace("\n", ending)
    return restored if protected_parts(restored) == protected_parts(before) else before


def unprotected(text: str) -> str:
    for region in REGIONS:
        text = without_region(text, region)
    text = strip_markers(text).strip()
    while end := frontmatter_end(text):
        text = text[end:].strip()
    return text


HEADING = "## Execution Notes Appendix"

_INSIGNIFICANT = " .;:,_-"
#: The bullets before a note, and all of one that says nothing.
_BULLET = re.compile(rf"^(?:[-*+•]\s+)*(?:[{_INSIGNIFICANT}]+$)?")


def notes_of(text: str) -> tuple[str, ...]:
    lines = (region_text(text, APPENDIX) or "").splitlines()
    return tuple(filter(None, map(cleaned, (line for line in lines if line.strip() != HEADING))))


def cleaned(note: str) -> str:
    return _BULLET.sub("", " ".join(strip_markers(note).split()))


def merge_notes(existing: Iterable[str], new: Iterable[str] = ()) -> tuple[str, ...]:
    merged: dict[str, str] = {}
    for note in filter(None, map(cleaned, (*existing, *new))):
        merged.setdefault(note.rstrip(_INSIGNIFICANT).casefold(), note)
    return tuple(merged.values())


def with_notes(text: str, notes: Iterable[str]) -> str:
    """The document with exactly ``notes`` in its appendix, which is at the end."""
    if (listed := merge_notes(notes)) == notes_of(text):
        return text
    inner = "\n".join((HEADING, "", *(f"- {note}" for note in listed))) if listed else ""
    return with_region(text, APPENDIX, inner)


LINE_BREAK = re.compile(r"\r\n?")
# The lookbehind avoids a match attempt from each character of a long run.
_TRAILING = re.compile(r"(?<![ \t])[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def reading(text: str) -> str:
    """The text as the target reads it, without invisible white space.

    Indentation stays, since it has a meaning in Markdown.
    """
    plain = _TRAILING.sub("", LINE_BREAK.sub("\n", as_read(text)))
    return _BLANK_LINES.sub("\n\n", plain).strip("\n")


def reading_sha256(text: str) -> str:
    """A hash that is equal for all texts that read the same."""
    return sha256(reading(text))


#: The words that SkillOpt counts.
LEADING_WORDS = (
    *("MUST", "ALWAYS", "NEVER", "ONLY", "CRITICAL", "IMPORTANT"),
    *("RESOLVE", "PREFER", "ENSURE", "STRICT", "VERIFY"),
)

_WORD = re.compile(r"[a-z0-9]+")


def semantic_density(text: str, leading_words: Collection[str] = ()) -> float:
    """The share of ``leading_words`` (SkillOpt's by default) outside regions, ignoring case."""
    for region in REGIONS:
        text = without_region(text, region)
    words = _WORD.findall(text.lower())
    leading = {word.lower() for word in leading_words or LEADING_WORDS}
    return sum(word in leading for word in words) / len(words) if words else 0.0
