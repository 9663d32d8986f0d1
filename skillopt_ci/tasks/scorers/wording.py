"""Reasons in words: one line, short, the telling part kept."""

from collections.abc import Sequence

#: Longest reason, in characters: it stands in a table cell and in an analyst's prompt.
REASON_CHARS = 300
_QUOTE_CHARS = 90


def one_line(text: str, limit: int = REASON_CHARS) -> str:
    """``text`` on one line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def last_words(text: str, limit: int = REASON_CHARS) -> str:
    """The end of ``text`` on one line: where programs say what went wrong."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"…{line[1 - limit :]}"


def quote(text: str) -> str:
    """``text`` in quotes on one line, shortened if long."""
    return f"'{one_line(text, _QUOTE_CHARS)}'"


def mismatch(references: Sequence[str], answer: str) -> str:
    """What was expected and what was got."""
    others = len(references) - 1
    more = f" (or one of {others} others)" if others > 1 else " (or 1 other)" if others else ""
    got = quote(answer) if answer.strip() else "an empty answer"
    return f"expected {quote(references[0])}{more}, got {got}"


def sentence(parts: Sequence[str]) -> str:
    """Several reasons as one, each with a fair share of the room."""
    share = max(20, REASON_CHARS // max(1, len(parts)) - 2)
    return one_line("; ".join(one_line(part, share) for part in parts))
