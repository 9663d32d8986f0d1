"""The execution appendix: short reminders of rules that the skill has and that were not followed.

It is a protected region of the document, so that edits of the body cannot touch it.
"""

import re
from collections.abc import Iterable

from skillopt_ci.skill.regions import APPENDIX, region_text, strip_markers, with_region

HEADING = "## Execution Notes Appendix"

_BULLET = re.compile(r"^(?:[-*+•]\s+)+")
_INSIGNIFICANT = " .;:,_-"


def notes_of(text: str) -> tuple[str, ...]:
    """Return the notes of the document's appendix; any line that a person wrote there is one."""
    lines = (region_text(text, APPENDIX) or "").splitlines()
    plain = (line for line in lines if line.strip() != HEADING)
    return tuple(filter(None, map(cleaned, plain)))


def cleaned(note: str) -> str:
    """Return the note on one line, without list markers and region markers."""
    return _BULLET.sub("", " ".join(strip_markers(note).split()))


def merge_notes(existing: Iterable[str], new: Iterable[str]) -> tuple[str, ...]:
    """Return existing and new notes, of several that say the same in the same words the first."""
    merged: dict[str, str] = {}
    for note in filter(None, map(cleaned, (*existing, *new))):
        merged.setdefault(_canonical(note), note)
    return tuple(merged.values())


def with_notes(text: str, notes: Iterable[str]) -> str:
    """Return the document with exactly ``notes`` in its appendix, which stands at the end.

    A document that has just these notes, or none and no appendix, is returned as it is.
    """
    listed = merge_notes((), notes)
    if listed == notes_of(text):
        return text
    inner = "\n".join((HEADING, "", *(f"- {note}" for note in listed))) if listed else ""
    return with_region(text, APPENDIX, inner)


def _canonical(note: str) -> str:
    return " ".join(note.split()).rstrip(_INSIGNIFICANT).casefold()
