"""The parts of a document that edits of a step may not touch.

These are the frontmatter, which the skill's format needs, and the regions between a pair of marker
comments, which other parts of the training write.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from skillopt_ci.skill.document import ended, frontmatter_end, line_ending


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the document between two marker comments."""

    name: str

    @property
    def start(self) -> str:
        """The comment that opens the region."""
        return f"<!-- {self.name}_START -->"

    @property
    def end(self) -> str:
        """The comment that closes the region."""
        return f"<!-- {self.name}_END -->"


SLOW_UPDATE = Region("SLOW_UPDATE")
APPENDIX = Region("APPENDIX")
REGIONS = (SLOW_UPDATE, APPENDIX)

_MARKER = re.compile(
    "|".join(re.escape(mark) for region in REGIONS for mark in (region.start, region.end))
)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from ``start`` up to, not including, ``end``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Markers:
    """Where a region stands in a text: whole blocks, and markers without a partner."""

    blocks: tuple[Span, ...]
    orphans: tuple[Span, ...]


def markers(text: str, region: Region) -> Markers:
    """Pair the region's markers: a start marker with the next end marker."""
    blocks: list[Span] = []
    orphans: list[Span] = []
    marker = re.compile(f"{region.start}|{region.end}")
    position = 0
    while match := marker.search(text, position):
        closing = text.find(region.end, match.end()) if match[0] == region.start else -1
        position = match.end() if closing < 0 else closing + len(region.end)
        (orphans if closing < 0 else blocks).append(Span(match.start(), position))
    return Markers(tuple(blocks), tuple(orphans))


def protected_spans(text: str) -> tuple[Span, ...]:
    """Return what edits must not touch: frontmatter, regions, lone markers; sorted, disjoint."""
    found = [markers(text, region) for region in REGIONS]
    spans = [span for each in found for span in (*each.blocks, *each.orphans)]
    if end := frontmatter_end(text):
        spans.append(Span(0, end))
    return _united(spans)


def tail_start(text: str) -> int | None:
    """Return where the first start marker stands, before which appended text belongs."""
    body = frontmatter_end(text)
    starts = [text.find(region.start, body) for region in REGIONS]
    return min((start for start in starts if start >= 0), default=None)


# every attempt at every task asks this of the same few texts
@lru_cache(maxsize=16)
def as_read(text: str) -> str:
    """Return the text as the target reads it: a region that holds nothing yet is left out.

    An empty placeholder therefore changes no prompt, and no score.
    """
    for region in REGIONS:
        if region_text(text, region) == "":
            text = without_region(text, region)
    return text


def strip_markers(text: str) -> str:
    """Remove every marker, and every marker that a removal brings together."""
    while (stripped := _MARKER.sub("", text)) != text:
        text = stripped
    return text


def region_text(text: str, region: Region) -> str | None:
    """Return what stands in the region's first block, stripped; None if there is no block."""
    blocks = markers(text, region).blocks
    if not blocks:
        return None
    first = blocks[0]
    return text[first.start + len(region.start) : first.end - len(region.end)].strip()


def with_region(text: str, region: Region, inner: str) -> str:
    """Return the text with the region's one block at its end, holding ``inner`` (may be blank)."""
    ending = line_ending(text)
    before = without_region(text, region).replace(ending, "\n").rstrip()
    lines = (region.start, _plain(inner), region.end)
    block = "\n".join(line for line in lines if line)
    return ended(f"{before}\n\n{block}" if before else block).replace("\n", ending)


def without_region(text: str, region: Region) -> str:
    """Return the text without the region's blocks and lone markers.

    Blank lines that come together at a removed block shrink to one; a text that has no such marker
    is returned as it is.
    """
    ending = line_ending(text)
    part = f"(?:{region.start}.*?{region.end}|{region.start}|{region.end})"
    removed, count = re.subn(
        rf"(\n*)(?:{part}(\n*))+",
        lambda match: "\n" * min(2, max(len(match[1]), len(match[2]))),
        text.replace(ending, "\n"),
        flags=re.DOTALL,
    )
    if not count:
        return text
    # Again, for the marker that two ends of removed ones may make together.
    return without_region(ended(removed).replace("\n", ending), region)


def _plain(inner: str) -> str:
    return strip_markers(inner.replace("\r\n", "\n")).strip()


def _united(spans: list[Span]) -> tuple[Span, ...]:
    united: list[Span] = []
    for span in sorted(spans, key=lambda each: (each.start, each.end)):
        if united and span.start < united[-1].end:
            united[-1] = Span(united[-1].start, max(united[-1].end, span.end))
        else:
            united.append(span)
    return tuple(united)
