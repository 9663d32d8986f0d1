"""The parts of a document that edits of a step may not touch.

These are the frontmatter, which the skill's format needs, and the regions between a pair of marker
comments, which other parts of the training write.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache

from skillopt_ci.skill.document import ended, frontmatter_end, line_ending, sha256


@dataclass(frozen=True, slots=True)
class Region:
    name: str

    @property
    def start(self) -> str:
        return f"<!-- {self.name}_START -->"

    @property
    def end(self) -> str:
        return f"<!-- {self.name}_END -->"


SLOW_UPDATE = Region("SLOW_UPDATE")
APPENDIX = Region("APPENDIX")
REGIONS = (SLOW_UPDATE, APPENDIX)

_MARKER = re.compile(
    "|".join(re.escape(mark) for region in REGIONS for mark in (region.start, region.end))
)


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Markers:
    blocks: tuple[Span, ...]
    orphans: tuple[Span, ...]


def markers(text: str, region: Region) -> Markers:
    """Pair the region's markers: a start marker with the next end marker."""
    blocks: list[Span] = []
    orphans: list[Span] = []
    starts: list[Span] = []
    for match in re.finditer(f"{region.start}|{region.end}", text):
        span = Span(*match.span())
        if match[0] == region.start:
            starts.append(span)
        elif starts:
            blocks.append(Span(starts[0].start, span.end))
            starts = []
        else:
            orphans.append(span)
    return Markers(tuple(blocks), (*orphans, *starts))


def protected_spans(text: str) -> tuple[Span, ...]:
    """What edits must not touch: frontmatter, regions, lone markers; sorted, disjoint."""
    found = [markers(text, region) for region in REGIONS]
    spans = [span for each in found for span in (*each.blocks, *each.orphans)]
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


def tail_start(text: str) -> int | None:
    """Where the first start marker stands, before which appended text belongs."""
    body = frontmatter_end(text)
    starts = [text.find(region.start, body) for region in REGIONS]
    return min((start for start in starts if start >= 0), default=None)


# every attempt at every task asks this of the same few texts
@lru_cache(maxsize=16)
def as_read(text: str) -> str:
    """The text as the target reads it: without regions that hold nothing yet.

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
    """What stands in the region's first block, stripped; None if there is no block."""
    blocks = markers(text, region).blocks
    if not blocks:
        return None
    first = blocks[0]
    return text[first.start + len(region.start) : first.end - len(region.end)].strip()


def with_region(text: str, region: Region, inner: str) -> str:
    """The text with the region's one block at its end, holding ``inner`` (may be blank)."""
    ending = line_ending(text)
    before = without_region(text, region).replace(ending, "\n").rstrip()
    plain = strip_markers(inner.replace("\r\n", "\n")).strip()
    lines = (region.start, plain, region.end)
    block = "\n".join(line for line in lines if line)
    return ended(f"{before}\n\n{block}" if before else block).replace("\n", ending)


def without_region(text: str, region: Region) -> str:
    """The text less the region's blocks and markers, and less blank lines around them."""
    ending = line_ending(text)
    left = text.replace(ending, "\n")
    # Again, for the marker that two ends of removed ones may make together.
    while (removed := _without_marked(left, region)) != left:
        left = ended(removed)
        text = left.replace("\n", ending)
    return text


def _without_marked(text: str, region: Region) -> str:
    found = markers(text, region)
    pieces, position = [], 0
    for span in sorted((*found.blocks, *found.orphans), key=lambda each: each.start):
        pieces.append(text[position : span.start])
        position = span.end
    if not pieces:
        return text
    kept = pieces[:1]
    for piece in (*(one for one in pieces[1:] if one.strip("\n")), text[position:]):
        before, after = kept[-1].rstrip("\n"), piece.lstrip("\n")
        blank = max(len(kept[-1]) - len(before), len(piece) - len(after))
        kept[-1:] = [before, "\n" * min(2, blank) + after]
    return "".join(kept)


def restore_regions(before: str, after: str) -> str:
    """``after`` with the protected parts of ``before``, byte for byte, and no others.

    If they changed, the frontmatter opens the document and the other parts close it. A text that
    cannot hold them so (a region can complete what the new text began) is given up for ``before``.
    """
    ending = line_ending(before)
    if ending != "\n":
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

_BULLET = re.compile(r"^(?:[-*+•]\s+)+")
_INSIGNIFICANT = " .;:,_-"


def notes_of(text: str) -> tuple[str, ...]:
    lines = (region_text(text, APPENDIX) or "").splitlines()
    plain = (line for line in lines if line.strip() != HEADING)
    return tuple(filter(None, map(cleaned, plain)))


def cleaned(note: str) -> str:
    return _BULLET.sub("", " ".join(strip_markers(note).split()))


def merge_notes(existing: Iterable[str], new: Iterable[str] = ()) -> tuple[str, ...]:
    merged: dict[str, str] = {}
    for note in filter(None, map(cleaned, (*existing, *new))):
        merged.setdefault(note.rstrip(_INSIGNIFICANT).casefold(), note)
    return tuple(merged.values())


def with_notes(text: str, notes: Iterable[str]) -> str:
    """The document with exactly ``notes`` in its appendix, which stands at the end."""
    listed = merge_notes(notes)
    if listed == notes_of(text):
        return text
    inner = "\n".join((HEADING, "", *(f"- {note}" for note in listed))) if listed else ""
    return with_region(text, APPENDIX, inner)


_LINE_BREAK = re.compile(r"\r\n?")
# The look behind keeps a long run from being tried from each of its characters.
_TRAILING = re.compile(r"(?<![ \t])[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def reading(text: str) -> str:
    """The text as the target reads it, without white space that no reader sees.

    Indentation, which means something in Markdown, stays.
    """
    plain = _TRAILING.sub("", _LINE_BREAK.sub("\n", as_read(text)))
    return _BLANK_LINES.sub("\n\n", plain).strip("\n")


def reading_sha256(text: str) -> str:
    """A name for all texts that read the same."""
    return sha256(reading(text))


#: The words that SkillOpt counts.
LEADING_WORDS = (
    "MUST",
    "ALWAYS",
    "NEVER",
    "ONLY",
    "CRITICAL",
    "IMPORTANT",
    "RESOLVE",
    "PREFER",
    "ENSURE",
    "STRICT",
    "VERIFY",
)

_WORD = re.compile(r"[a-z0-9]+")


def semantic_density(text: str, leading_words: Collection[str] = ()) -> float:
    """The share of ``leading_words`` (by default SkillOpt's), from 0 to 1.

    Regions between markers do not count, nor does letter case.
    """
    for region in REGIONS:
        text = without_region(text, region)
    words = _WORD.findall(text.lower())
    leading = {word.lower() for word in leading_words or LEADING_WORDS}
    return sum(word in leading for word in words) / len(words) if words else 0.0
