"""The skill document as text: identity, size, line endings and the YAML frontmatter."""

import hashlib
import re
from pathlib import Path

from skillopt_ci.errors import SkillError

_FRONTMATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?:.*?\n)??---(?=[ \t]*\r?(?:\n|\Z))", re.DOTALL)


def sha256(text: str) -> str:
    """Return the hexadecimal SHA-256 of the text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def word_count(text: str) -> int:
    """Return the number of words, divided by white space."""
    return len(text.split())


def decode(data: bytes, path: Path) -> str:
    """Return the document's text; raises :class:`SkillError` at the first byte not in UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SkillError(
            f"the skill is not UTF-8 text: byte 0x{data[error.start]:02x} at offset {error.start}",
            file=path,
            line=line,
            hint="Save the file as UTF-8.",
        ) from error


def line_ending(text: str) -> str:
    r"""Return ``"\r\n"`` if every line of the text ends so, else ``"\n"``."""
    endings = text.count("\n")
    return "\r\n" if endings and text.count("\r\n") == endings else "\n"


def frontmatter_end(text: str) -> int:
    """Return where the closing ``---`` of the YAML frontmatter ends, 0 if there is none."""
    match = _FRONTMATTER.match(text)
    return match.end() if match else 0


def frontmatter(text: str) -> str:
    """Return the YAML between the ``---`` lines at the very start, or an empty string."""
    whole = text[: frontmatter_end(text)].removeprefix("\ufeff")
    return whole.partition("\n")[2].removesuffix("---")


def body(text: str) -> str:
    """Return what follows the frontmatter, without the blank lines between them."""
    end = frontmatter_end(text)
    return text[end:].lstrip() if end else text


def ended(text: str) -> str:
    """Return the text with exactly one line break at its end, or nothing if it is blank."""
    stripped = text.rstrip()
    return stripped + "\n" if stripped else ""
