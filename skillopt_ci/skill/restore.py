"""The protected parts of a document, put back after somebody wrote the whole document anew."""

from skillopt_ci.skill.document import ended, frontmatter_end, line_ending
from skillopt_ci.skill.regions import REGIONS, protected_spans, strip_markers, without_region


def restore_regions(before: str, after: str) -> str:
    """Return ``after`` with the protected parts of ``before``, byte for byte, and no others.

    Where ``after`` kept them as they were it is returned as it is, but with CRLF line endings if
    ``before`` has them. Otherwise the frontmatter opens the document and the other parts close it,
    in their old order. A text that cannot hold them so (what stands in a region can complete what
    the new text began) is given up: then ``before`` is returned.
    """
    ending = line_ending(before)
    if ending != "\n":
        after = after.replace(ending, "\n").replace("\n", ending)
    if _protected(after) == _protected(before):
        return after
    restored = _rebuilt(before.replace(ending, "\n"), after.replace(ending, "\n"))
    restored = restored.replace("\n", ending)
    return restored if _protected(restored) == _protected(before) else before


def unprotected(text: str) -> str:
    """Return the text without its protected parts, stripped."""
    for region in REGIONS:
        text = without_region(text, region)
    text = strip_markers(text).strip()
    while end := frontmatter_end(text):
        text = text[end:].strip()
    return text


def _rebuilt(before: str, after: str) -> str:
    parts = _protected(before)
    head = parts[:1] if frontmatter_end(before) else []
    return ended("\n\n".join(filter(None, (*head, unprotected(after), *parts[len(head) :]))))


def _protected(text: str) -> list[str]:
    return [text[span.start : span.end] for span in protected_spans(text)]
