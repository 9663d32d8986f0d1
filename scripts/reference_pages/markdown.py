"""Markdown from the words of docstrings and help texts."""

import re
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":[a-z]+:`~?(?:[\w.]*\.)?(\w+)`")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; every cell is one line of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell(text) for text in line)} |\n" for line in lines)


def cell(text: str) -> str:
    """Markdown as it may stand in a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def prose(docstring: str) -> str:
    """A docstring's text: literals and references become Markdown's code."""
    return _ROLE.sub(r"`\1`", docstring).replace("``", "`")


def code(text: str) -> str:
    """Text in a code span that nothing in it can end."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"
