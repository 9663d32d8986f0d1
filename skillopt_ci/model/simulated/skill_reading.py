"""What a skill's text says about each convention."""

import re
from collections.abc import Iterable

from skillopt_ci.model.simulated.convention import Stance
from skillopt_ci.model.simulated.houses import ALL_CONVENTIONS, BY_NAME

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")


def statements(text: str) -> tuple[str, ...]:
    """Return the sentences of ``text``, each on one line, without list markers."""
    pieces = (piece.strip().lstrip("-*+>#0123456789. ") for piece in _SENTENCE_END.split(text))
    return tuple(piece for piece in pieces if piece)


def stances(text: str) -> dict[str, frozenset[Stance]]:
    """Return for each convention what the sentences of ``text`` say on it."""
    said = statements(text)
    return {
        convention.name: frozenset(_known(convention.stance(statement) for statement in said))
        for convention in ALL_CONVENTIONS
    }


def subject(text: str) -> tuple[str, Stance] | None:
    """Return the first convention that ``text`` takes a stance on, with that stance."""
    found = stances(text)
    for name, taken in found.items():
        if taken:
            return name, "against" if "against" in taken else "for"
    return None


def conflicting_line(skill: str, name: str) -> str | None:
    """Return the first line of ``skill`` that goes against the named convention."""
    convention = BY_NAME[name]
    for line in skill.splitlines():
        if any(convention.stance(statement) == "against" for statement in statements(line)):
            return line
    return None


def _known(taken: Iterable[Stance | None]) -> Iterable[Stance]:
    return (stance for stance in taken if stance is not None)
