"""What a document says, spacing apart: texts with the same reading need no second measurement."""

import re

from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import as_read

_LINE_BREAK = re.compile(r"\r\n?")
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def reading(text: str) -> str:
    """The text as the target reads it, without what no reader sees.

    Left out are empty regions, white space at the ends of lines and of the document, and all but
    one of several blank lines. Indentation, which means something in Markdown, stays.
    """
    plain = _TRAILING.sub("", _LINE_BREAK.sub("\n", as_read(text)))
    return _BLANK_LINES.sub("\n\n", plain).strip("\n")


def reading_sha256(text: str) -> str:
    """A name for all texts that read the same."""
    return sha256(reading(text))
