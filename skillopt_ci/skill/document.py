"""The skill document as text: identity, size, line endings and the YAML frontmatter."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

_FRONTMATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?:.*?\n)??---(?=[ \t]*\r?(?:\n|\Z))", re.DOTALL)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def word_count(text: str) -> int:
    return len(text.split())


def line_ending(text: str) -> str:
    r"""Return ``"\r\n"`` if every line of the text ends so, else ``"\n"``."""
    endings = text.count("\n")
    return "\r\n" if endings and text.count("\r\n") == endings else "\n"


def frontmatter_end(text: str) -> int:
    """Where the closing ``---`` of the YAML frontmatter ends, 0 if there is none."""
    match = _FRONTMATTER.match(text)
    return match.end() if match else 0


def frontmatter(text: str) -> str:
    """The YAML between the ``---`` lines at the very start, or nothing."""
    whole = text[: frontmatter_end(text)].removeprefix("\ufeff")
    return whole.partition("\n")[2].removesuffix("---")


def body(text: str) -> str:
    """What follows the frontmatter, without the blank lines between them."""
    end = frontmatter_end(text)
    return text[end:].lstrip() if end else text


def ended(text: str) -> str:
    """The text with exactly one line break at its end, or nothing if it is blank."""
    stripped = text.rstrip()
    return stripped + "\n" if stripped else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A place for documents: a file name, or a pattern of a path's end, and who reads it."""

    pattern: str
    reader: str


#: The first place that fits counts. A pattern matches at any depth, as agents look in any folder.
PLACES = (
    Place(".claude/skills/*/SKILL.md", "Claude Code"),
    Place(".github/skills/*/SKILL.md", "Copilot"),
    Place(".agents/skills/*/SKILL.md", "agents"),
    Place(".codex/skills/*/SKILL.md", "Codex"),
    Place(".cursor/skills/*/SKILL.md", "Cursor"),
    Place(".gemini/skills/*/SKILL.md", "Gemini CLI"),
    Place("SKILL.md", "agents"),
    Place("AGENTS.md", "agents"),
    Place("CLAUDE.md", "Claude Code"),
    Place("GEMINI.md", "Gemini CLI"),
    Place(".github/copilot-instructions.md", "Copilot"),
    Place(".github/instructions/*.instructions.md", "Copilot"),
    Place(".cursor/rules/*.mdc", "Cursor"),
)

#: The trainer's own memory holds copies of skills.
_OURS = ".skillopt"


def documents(paths: Iterable[str]) -> tuple[tuple[str, Place], ...]:
    """Those of ``paths`` (relative, POSIX) that agents read, sorted."""
    found = ((path, place_of(path)) for path in sorted(set(paths)))
    return tuple((path, place) for path, place in found if place is not None)


def place_of(path: str) -> Place | None:
    pure = PurePosixPath(path)
    if pure.parts[:1] == (_OURS,):
        return None
    return next((place for place in PLACES if pure.match(place.pattern)), None)
