"""What changed between two versions of a document, as a unified diff."""

import difflib
from collections.abc import Iterator

_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified_diff(before: str, after: str, name: str = "SKILL.md", context: int = 3) -> str:
    """Return a unified diff with ``context`` lines around each change, empty if nothing changed.

    The result is what ``git apply`` reads, and, like the documents, untrusted text.
    """
    lines = difflib.unified_diff(
        _lines(before), _lines(after), fromfile=f"a/{name}", tofile=f"b/{name}", n=context
    )
    return "".join(_terminated(lines))


def _lines(text: str) -> list[str]:
    # Not `splitlines`: form feeds and the like are no line breaks to git.
    lines = [line + "\n" for line in text.split("\n")]
    return [*lines[:-1], lines[-1][:-1]] if text and not text.endswith("\n") else lines[:-1]


def _terminated(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else line + _NO_NEWLINE
