"""The Agent Skills format of a `SKILL.md`, as its reference library checks it."""

import re
from collections.abc import Iterator
from pathlib import Path

from skillopt_ci.skill.document import frontmatter, frontmatter_end
from skillopt_ci.skill.problem import Problem, Severity

_LINE = re.compile(r"\bline:? (\d+)")
_FIELD = re.compile(r"\b(name|description|compatibility)\b", re.IGNORECASE)
_UNKNOWN_FIELDS = "Unexpected fields"
#: What agents pass a skill by for, though it can be trained.
_MISSING = ("Missing required field", "SKILL.md must start with YAML frontmatter")


def format_problems(text: str, path: Path) -> Iterator[Problem]:
    """Yield what the format objects to; the folder's name counts where ``path`` has one.

    Only warned about are fields beyond the standard's, and YAML that is valid but uses more of the
    language than the standard's strict parser allows: agents load both. So are front matter, name
    or description that are not there yet: agents pass such a skill by, but it can be trained.
    """
    # Imported late: the library is slow to load, and few commands need it.
    from skills_ref.errors import ParseError  # type: ignore[import-untyped]  # noqa: PLC0415
    from skills_ref.parser import parse_frontmatter  # type: ignore[import-untyped]  # noqa: PLC0415
    from skills_ref.validator import validate_metadata  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        metadata, _ = parse_frontmatter(text)
    except ParseError as error:
        metadata = _mapping(frontmatter(text))
        lenient = metadata is not None or str(error).startswith(_MISSING)
        yield _parse_problem(str(error), "warning" if lenient else "error")
    if metadata is None:
        return
    for message in validate_metadata(metadata, path.parent if path.parent.name else None):
        lenient = message.startswith((_UNKNOWN_FIELDS, *_MISSING))
        severity: Severity = "warning" if lenient else "error"
        yield Problem(severity, message, _line_of_field(text, message))


def _parse_problem(message: str, severity: Severity) -> Problem:
    # The parser counts from the text after the opening `---`, whose first line is that marker's.
    line = _LINE.search(message)
    spoken = (part for part in message.splitlines() if not part.startswith(" "))
    return Problem(severity, "; ".join(spoken), int(line[1]) if line else 1)


def _mapping(source: str) -> dict[str, object] | None:
    import yaml  # noqa: PLC0415

    try:
        value = yaml.safe_load(source)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else None


def _line_of_field(text: str, message: str) -> int:
    field = _FIELD.search(message)
    lines = text[: frontmatter_end(text)].split("\n")
    wanted = f"{field[1].lower()}:" if field else "---"
    return next((number for number, line in enumerate(lines, 1) if line.startswith(wanted)), 1)


def unloadable(text: str, path: Path) -> str:
    """Why agents would not load the `SKILL.md` with this ``text``, in a line; empty if they do.

    Any other document is read whatever it begins with.
    """
    if path.name != "SKILL.md" or not text.strip():
        return ""
    messages = [problem.message for problem in format_problems(text, path) if _matters(problem)]
    if not messages:
        return ""
    wanted = "It has to begin with `---`, `name: …`, `description: …`, `---`, a line each."
    return f"Agents will pass {path} by: {'; '.join(messages)}. {wanted}"


def _matters(problem: Problem) -> bool:
    return problem.severity == "error" or problem.message.startswith(_MISSING)
