"""Checks whether a document can be trained and loaded; problems have line numbers."""

import os
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import yaml

from skillopt_ci.config.yaml import load_yaml
from skillopt_ci.skill.document import frontmatter, word_count
from skillopt_ci.skill.regions import REGIONS, markers
from skillopt_ci.util import grouped, is_lfs_pointer

#: We train git's content of a file, which for a file in LFS is only the pointer.
LFS_REMEDY = (
    "Run `git lfs pull`; then take the file out of `.gitattributes`, so that git itself keeps it, "
    "and commit it."
)


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """An ``error`` makes the document unusable for its readers; a ``warning`` deserves a look."""

    severity: Literal["error", "warning"]
    message: str
    line: int | None = None


#: Longer front matter is not checked: the library's time is quadratic in the length.
_MOST_CHECKED = 10_000
_UNKNOWN_FIELDS = "Unexpected fields"
_BYTE_ORDER_MARK = "A byte order mark (U+FEFF) precedes the front matter: save the file without it"
#: Problems for which agents skip a skill, though it can be trained.
_MISSING = ("Missing required field", "SKILL.md must start with YAML frontmatter", _BYTE_ORDER_MARK)


def seen_path(root: Path, name: str, repository: Path | None) -> Path:
    """The path of ``name`` in the repository as agents see it, who follow no links."""
    real = Path(os.path.realpath(root))
    return Path(os.path.relpath(real / name, repository or real))


def format_problems(text: str, path: Path) -> Iterator[SkillProblem]:
    """Violations of the Agent Skills format.

    Unknown fields, a key twice, and missing front matter are warnings: such skills can be trained,
    and agents load most. YAML such as `[a, b]`, which only the strict parser disallows, is fine.
    """
    # Imported late: the library loads slowly, and few commands need it.
    from skills_ref.errors import ParseError  # type: ignore[import-untyped]  # noqa: PLC0415
    from skills_ref.parser import parse_frontmatter  # type: ignore[import-untyped]  # noqa: PLC0415
    from skills_ref.validator import validate_metadata  # type: ignore[import-untyped]  # noqa: PLC0415

    if len(frontmatter(text)) > _MOST_CHECKED:
        told = f"The front matter has more than {_MOST_CHECKED:,} characters and was not checked."
        yield SkillProblem("warning", told, 1)
        return
    if text.startswith("\ufeff"):
        yield SkillProblem("warning", _BYTE_ORDER_MARK, 1)
    try:
        metadata, _ = parse_frontmatter(text.removeprefix("\ufeff"))
    except RecursionError:
        yield SkillProblem("error", "The front matter is nested too deeply to be read.", 1)
        return
    except ParseError as error:
        metadata = None
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            if isinstance(loaded := load_yaml(frontmatter(text)), dict):
                metadata = {str(key): each for key, each in loaded.items()}
        lenient = metadata is not None or str(error).startswith(_MISSING)
        spoken = (part for part in str(error).splitlines() if not part.startswith(" "))
        if metadata is None or "disallowed" not in str(error):
            yield SkillProblem("warning" if lenient else "error", "; ".join(spoken), 1)
    if metadata is None:
        return
    for message in validate_metadata(metadata, path.parent if path.parent.name else None):
        lenient = message.startswith((_UNKNOWN_FIELDS, *_MISSING))
        yield SkillProblem("warning" if lenient else "error", message, 1)


def unloadable(text: str, path: Path) -> str:
    """Why agents would not load a `SKILL.md` with this ``text``, in one line; empty if they do."""
    if path.name != "SKILL.md" or not text.strip():
        return ""
    messages = [
        problem.message
        for problem in format_problems(text, path)
        if problem.severity == "error" or problem.message.startswith(_MISSING)
    ]
    if not messages:
        return ""
    told = f"Agents will skip {path}: {'; '.join(one.rstrip('.') for one in messages)}."
    if any(one.startswith(_MISSING[:2]) for one in messages):
        told += " It has to begin with `---`, `name: …`, `description: …`, `---`, a line each."
    return told


#: Recommended by the Agent Skills standard, since agents load the whole document into context.
MAX_LINES = 500
MAX_WORDS = 4_000

_OVERLAP = "This region begins inside the one above it: separate them, or updates lose text."
PLAIN_CONTROLS = "\t\n\r"
#: Invisible, but ordinary characters in some scripts and in emoji.
JOINERS = "\u200c\u200d"


def problems(text: str, path: Path) -> tuple[SkillProblem, ...]:
    """The problems of a document for ``path``: errors first, then by line."""
    if is_lfs_pointer(text):
        return (SkillProblem("error", f"This is a Git LFS pointer, not the skill. {LFS_REMEDY}"),)
    found: list[SkillProblem] = []
    for region in REGIONS:
        for orphan in (one for one in markers(text, region) if one.lone):
            mark = text[orphan.start : orphan.end]
            partner = region.end if mark == region.start else region.start
            message = f"The marker `{mark}` has no matching `{partner}`."
            found.append(SkillProblem("error", message, _line(text, orphan.start)))
    marked = (one for region in REGIONS for one in markers(text, region) if not one.lone)
    found += [
        SkillProblem("error", _OVERLAP, _line(text, other.start))
        for one, other in pairwise(sorted(marked, key=lambda span: span.start))
        if other.start < one.end
    ]
    found += _unseen_characters(text)
    if not text.strip():
        found.append(SkillProblem("warning", "The file is empty: training starts from nothing."))
    lines, words = text.count("\n") + 1, word_count(text)
    if lines > MAX_LINES or words > MAX_WORDS:
        size = (
            f"The document is very long ({lines:,} lines, {words:,} words): agents load all of it. "
            f"Recommended are at most {MAX_LINES:,} lines and {MAX_WORDS:,} words."
        )
        found.append(SkillProblem("warning", size))
    if path.name == "SKILL.md" and text.strip():
        found += format_problems(text, path)
    return tuple(sorted(found, key=lambda problem: (problem.severity, problem.line or 0)))


def _unseen_characters(text: str) -> Iterator[SkillProblem]:
    places = grouped(
        (character, position)
        for position, character in enumerate(text)
        if not character.isprintable()
        and character not in PLAIN_CONTROLS + JOINERS
        and unicodedata.category(character) in ("Cc", "Cf", "Cs")
    )
    for character, positions in places.items():
        first = _line(text, positions[0])
        if unicodedata.category(character) == "Cs":
            yield SkillProblem("error", "The document holds bytes that are not UTF-8.", first)
            continue
        name = unicodedata.name(character, "control character")
        times = f", {len(positions)} times" if len(positions) > 1 else ""
        message = f"The document holds an invisible U+{ord(character):04X} ({name}){times}."
        yield SkillProblem("warning", message, first)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
