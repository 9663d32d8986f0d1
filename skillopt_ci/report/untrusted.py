"""Text that a model or a task wrote, made harmless for one line of a commit message or a log.

GitHub acts on what it finds in a commit message: it notifies ``@name``, links and even closes
``#12`` or an issue's URL. Terminals act on control characters.
"""

import re
import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_MENTION = re.compile(r"@(?=\w)")
_ISSUE = re.compile(r"(?i)(?:#|\bGH-)(?=\d)")
_SCHEME = re.compile(r"(?i)\b(https?|ftp|ssh|git|mailto|javascript|data):(?=\S)")


def one_line(text: str, limit: int) -> str:
    """``text`` on one line of at most ``limit`` characters, without anything that acts."""
    flat = " ".join(visible(text).split())
    inert = _SCHEME.sub(r"\1: ", _ISSUE.sub("no. ", _MENTION.sub("(at)", flat)))
    return inert if len(inert) <= limit else inert[: limit - 1].rstrip() + "…"


def visible(text: str) -> str:
    """``text`` without control, format (invisible, bidirectional) and unassigned characters.

    Line breaks and tabs stay; lone surrogates go, since they cannot be written as UTF-8.
    """
    return "".join(
        character
        for character in text
        if character in "\n\t" or unicodedata.category(character) not in _UNSEEN
    )
