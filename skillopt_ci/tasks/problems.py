"""What is wrong with task files, collected so that a person can mend all of it at once."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.errors import TaskFileError

#: Problems shown in one error: more would hide the first.
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason to refuse a task file; ``line`` counts from 1, None where no line is to blame."""

    file: Path | None
    line: int | None
    message: str

    def __str__(self) -> str:
        return f"{location(self.file, self.line)}: {self.message}"


def location(file: Path | None, line: int | None) -> str:
    """``file:line`` as editors understand it."""
    if file is None:
        return "(not from a file)"
    return f"{file}" if line is None else f"{file}:{line}"


def refuse(problems: Sequence[Problem]) -> None:
    """Raise one :class:`TaskFileError` that shows up to ten of ``problems``; none, no error."""
    if not problems:
        return
    first, *others = problems
    lines = [first.message, *map(str, others[: SHOWN - 1])]
    hidden = len(problems) - SHOWN
    hint = f"… and {hidden} more problem{'s' if hidden > 1 else ''}" if hidden > 0 else ""
    raise TaskFileError("\n".join(lines), file=first.file, line=first.line, hint=hint)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Words that lead from a wrong ``name`` to the nearest known one, or to all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name.casefold(), names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names)}"
