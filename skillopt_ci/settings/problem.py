"""What is wrong with a configuration, gathered so that all of it is told at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from skillopt_ci.errors import ConfigError
from skillopt_ci.settings.node import Mark


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend. ``key`` is the dotted path, empty for the file as a whole."""

    mark: Mark
    key: str
    text: str

    def __str__(self) -> str:
        origin = f"-o {self.mark.override}: " if self.mark.override else ""
        name = f"{self.key}: " if self.key and self.key != self.mark.override else ""
        return f"{origin}{name}{self.text}"

    def with_place(self) -> str:
        """The whole line: file, line, key and text."""
        return f"{self.mark}: {self}" if self.mark.file else str(self)


class InvalidConfigError(ConfigError):
    """A configuration with ``problems``: one line each in the message, in the files' order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=reading_order))
        first, *others = self.problems
        lines = [str(first), *(other.with_place() for other in others)]
        super().__init__("\n".join(lines), file=first.mark.file, line=first.mark.line)


def nearest(word: str, known: Sequence[str], cutoff: float = 0.6) -> str:
    """The phrase ``; did you mean …?`` with the known word closest to ``word``, or nothing."""
    matches = get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def reading_order(problem: Problem) -> tuple[bool, str, int]:
    """Sorts by file and line, the command line last."""
    mark = problem.mark
    return (bool(mark.override), str(mark.file or ""), mark.line or 0)
