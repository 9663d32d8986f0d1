"""Sections that several stages put into the optimizer's user message, stable ones first."""

from skillopt_ci.fence import fenced

_EMPTY_SKILL = "The skill is still empty: only `append` can be used."
_META_SKILL = (
    "Notes on which kinds of edits helped or hurt in earlier epochs. Prefer them where the "
    "evidence is ambiguous, and do not force them on evidence that is clear."
)


def section(heading: str, *parts: str) -> str:
    """Return a second-level section of a prompt."""
    return "\n\n".join((f"## {heading}", *parts))


def joined(*sections: str) -> str:
    """Join ``sections`` into a message; empty ones are left out."""
    return "\n\n".join(filter(None, sections))


def current_skill(skill: str) -> str:
    """Return the section with the skill that is to be edited, verbatim, as data."""
    text = fenced(skill, "markdown") if skill.strip() else _EMPTY_SKILL
    return section("Current Skill", text)


def meta_skill(text: str) -> str:
    """Return the section with the optimizer's memory, or nothing if it is blank."""
    return section("Optimizer Meta Skill", _META_SKILL, fenced(text)) if text.strip() else ""
