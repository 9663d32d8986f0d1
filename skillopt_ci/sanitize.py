"""Make text from a model or a task harmless in a line of a commit message or log.

GitHub acts on commit messages: it notifies ``@name``, links and even closes ``#12`` or an issue's
URL, and skips workflows for ``[skip ci]``. Terminals act on control characters.
"""

import re
import unicodedata

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_ELLIPSIS = "…"
#: A cut moves back to the last space, unless that would lose more than this many characters.
_LONGEST_TORN_WORD = 20
#: Removed at a cut, since they look unfinished and could act together with the following text.
_LOOSE_ENDS = " .,;:@#"
#: The marks and number of a heading, item, task or quote, and those around first words in bold.
MARKERS = re.compile(r"\A\s*(?:(?:[#>*+-]+|\d+[.)]|\[[ xX]\])(?:\s+|\Z))*(?:\*\*([^*\n]+)\*\*)?")

_ACTING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)(?:#|(?<![a-z0-9])GH-)(?=\d)"), "no. "),
    (re.compile(r"@(?=\w)"), "(at)"),  # after numbers, or `@#1` would become `@no. 1`
    (
        re.compile(r"(?i)(?<![a-z0-9])(https?|ftp|ssh|git|mailto|xmpp|javascript|data):(?=\S)"),
        r"\1: ",
    ),
    (re.compile(r"(?i)(?<![a-z0-9])www\.(?=\S)"), "www. "),
    (re.compile(r"(?i)\[((?:skip|no|ci|actions)[ -][\w-]+)\]"), r"(\1)"),
)


def one_line(text: str, limit: int) -> str:
    """``text`` on one line of at most ``limit`` characters, with nothing that GitHub acts on."""
    # replacements never shorten text, so text far beyond the limit has no effect
    line = harmless(" ".join(visible(text).split()))[: limit + 100]
    for pattern, replacement in _ACTING:
        line = pattern.sub(replacement, line)
    if len(line) <= limit:
        return line
    room = limit - len(_ELLIPSIS)
    word_end = line.rfind(" ", 0, room + 1)
    end = word_end if word_end >= room - _LONGEST_TORN_WORD else room
    return line[: max(end, 0)].rstrip(_LOOSE_ENDS) + _ELLIPSIS


def visible(text: str) -> str:
    """``text`` without control, format (invisible, bidirectional) and unassigned characters.

    Keeps line breaks and tabs; removes lone surrogates, which cannot be written as UTF-8.
    """
    if text.isprintable():  # nearly every line
        return text
    unseen = {one for one in set(text) - {*"\n\t"} if unicodedata.category(one) in _UNSEEN}
    return text.translate(dict.fromkeys(map(ord, unseen))) if unseen else text


# GitHub's runner obeys `::` at the start of a line and `##[` anywhere in it
_COMMAND = re.compile(r"^[^\S\n]*:(?=:)|##(?=\[)", re.MULTILINE)


def harmless(text: str) -> str:
    """``text`` without control characters or commands to a CI runner."""
    return _COMMAND.sub(lambda found: f"{found[0]} ", visible(text))


def harmless_line(text: str) -> str:
    return harmless(" ".join(text.split()))
