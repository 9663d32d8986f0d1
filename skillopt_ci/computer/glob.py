"""Which of the files of a folder a list of names and globs means."""

import re
from collections.abc import Sequence
from functools import cache

from skillopt_ci.computer.errors import FileRefused

_TOKEN = re.compile(r"(\*\*/)|(\*\*)|(\*)|(\?)|(\[!?\]?[^]/]*\])|(.)", re.DOTALL)


def selected(files: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return those of ``files`` (relative paths) that ``patterns`` name, sorted.

    ``*`` and ``?`` match within a path's part, ``**`` over any number of parts, ``[ab]`` and
    ``[!ab]`` one character. A folder means all that is in it. Raises FileRefused for a pattern
    that leads outside.
    """
    wanted = [_compiled(pattern) for pattern in patterns]
    return sorted(
        file
        for file in files
        if any(regex.fullmatch(above) for above in _with_parents(file) for regex in wanted)
    )


def _with_parents(file: str) -> list[str]:
    parts = file.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    if pattern.startswith("/") or ".." in parts:
        raise FileRefused(f"{pattern}: only paths inside the agent's folder can be exported.")
    name = "/".join(parts) or "**"
    return re.compile("".join(_translated(match) for match in _TOKEN.finditer(name)), re.DOTALL)


def _translated(match: re.Match[str]) -> str:
    folders, anything, part, character, one_of, literal = match.groups()
    if folders:
        return "(?:[^/]+/)*"
    if anything:
        return ".*"
    if part or character:
        return "[^/]*" if part else "[^/]"
    if one_of:
        negated = one_of.startswith("[!")
        inner = one_of[2 if negated else 1 : -1]
        inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", inner)
        return f"[{'^/' if negated else ''}{inside}]"
    return re.escape(literal)
