"""Whether a document is fit to be trained and loaded: its problems, with line numbers."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

from skillopt_ci.skill.agent_skills import format_problems
from skillopt_ci.skill.document import word_count
from skillopt_ci.skill.problem import Problem
from skillopt_ci.skill.regions import REGIONS, markers

__all__ = ["MAX_LINES", "MAX_WORDS", "Problem", "problems"]

#: Agents load the whole document into their context: what the Agent Skills standard recommends.
MAX_LINES = 500
MAX_WORDS = 4_000

_PLAIN_CONTROLS = "\t\n\r"
#: Ordinary letters of some scripts and parts of emoji, though invisible themselves.
_JOINERS = "\u200c\u200d"


def problems(text: str, path: Path) -> tuple[Problem, ...]:
    """Return what is wrong with the document that stands, or will stand, at ``path``.

    A `SKILL.md` must also follow the Agent Skills format. Errors come first, then by line. Nothing
    is read from the disk.
    """
    found = [*_blank(text), *_unpaired_markers(text), *_unseen_characters(text), *_size(text)]
    if path.name == "SKILL.md" and text.strip():
        found += format_problems(text, path)
    return tuple(sorted(found, key=lambda problem: (problem.severity, problem.line or 0)))


def _blank(text: str) -> Iterator[Problem]:
    if not text.strip():
        yield Problem("warning", "The document is empty: training starts from nothing.")


def _size(text: str) -> Iterator[Problem]:
    lines, words = text.count("\n") + 1, word_count(text)
    if lines > MAX_LINES or words > MAX_WORDS:
        yield Problem(
            "warning",
            f"The document is very long ({lines:,} lines, {words:,} words): agents load all of it. "
            f"Recommended are at most {MAX_LINES:,} lines and {MAX_WORDS:,} words.",
        )


def _unpaired_markers(text: str) -> Iterator[Problem]:
    for region in REGIONS:
        for orphan in markers(text, region).orphans:
            mark = text[orphan.start : orphan.end]
            partner = region.end if mark == region.start else region.start
            message = f"The marker `{mark}` has no matching `{partner}`."
            yield Problem("error", message, _line(text, orphan.start))


def _unseen_characters(text: str) -> Iterator[Problem]:
    """Yield one problem per kind of character that people do not see but models read."""
    places: dict[str, list[int]] = {}
    for position, character in enumerate(text):
        if not character.isprintable() and _is_unseen(character):
            places.setdefault(character, []).append(position)
    for character, positions in places.items():
        first = _line(text, positions[0])
        if unicodedata.category(character) == "Cs":
            yield Problem("error", "The document holds bytes that are not UTF-8.", first)
            continue
        name = unicodedata.name(character, "control character")
        times = f", {len(positions)} times" if len(positions) > 1 else ""
        message = f"The document holds an invisible U+{ord(character):04X} ({name}){times}."
        yield Problem("warning", message, first)


def _is_unseen(character: str) -> bool:
    if character in _PLAIN_CONTROLS or character in _JOINERS:
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs")


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
