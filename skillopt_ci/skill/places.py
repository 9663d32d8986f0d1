"""Where coding agents look for what they read before they work."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Place:
    """A place for documents: a file name, or a pattern of a path's end, and who reads it."""

    pattern: str
    reader: str
    is_skill: bool = False
    """A folder of its own, loaded when it is needed, not a document that is always read."""


#: The first place that fits counts. A pattern matches at any depth, as agents look in any folder.
PLACES = (
    Place(".claude/skills/*/SKILL.md", "Claude Code", is_skill=True),
    Place(".github/skills/*/SKILL.md", "Copilot", is_skill=True),
    Place(".agents/skills/*/SKILL.md", "agents", is_skill=True),
    Place(".codex/skills/*/SKILL.md", "Codex", is_skill=True),
    Place(".cursor/skills/*/SKILL.md", "Cursor", is_skill=True),
    Place(".gemini/skills/*/SKILL.md", "Gemini CLI", is_skill=True),
    Place("SKILL.md", "agents", is_skill=True),
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
    """Those of ``paths`` (relative, POSIX) that agents read, each with its place, sorted."""
    found = ((path, place_of(path)) for path in sorted(set(paths)))
    return tuple((path, place) for path, place in found if place is not None)


def place_of(path: str) -> Place | None:
    """The place that ``path`` is; None if no agent reads it by itself."""
    parts = PurePosixPath(path).parts
    if parts[:1] == (_OURS,):
        return None
    return next((place for place in PLACES if _fits(parts, place.pattern)), None)


def _fits(parts: tuple[str, ...], pattern: str) -> bool:
    wanted = pattern.split("/")
    end = parts[-len(wanted) :]
    return len(end) == len(wanted) and all(map(fnmatchcase, end, wanted))
