"""Texts as GitHub takes and returns them. Its size limits are a last resort here: whoever writes
the texts keeps to less."""

BODY = 65_536
"""Characters of a comment or of a pull request's body."""
SUMMARY = 65_535
"""Characters of a check's summary."""
TITLE = 256
"""Characters of a title."""
STATUS = 140
"""Characters of a commit status."""
ANNOTATION = 60_000
"""Bytes of an annotation's message, a little less than the 64 KB that GitHub takes."""

_NOTICE = "\n\n(cut here: longer than GitHub takes)"


def clip_text(text: str, limit: int) -> str:
    """Return ``text``, cut at a line's end and with a notice if it is longer than ``limit``."""
    whole = _head(text, limit)
    if len(whole) == len(text):
        return whole
    head = _head(text, limit - len(_NOTICE))
    line_end = head.rfind("\n")
    return (head if line_end <= 0 else head[:line_end]) + _NOTICE


def clip_line(text: str, limit: int) -> str:
    """Return ``text`` as one line of at most ``limit`` characters."""
    line = " ".join(text.split())
    whole = _head(line, limit)
    return whole if len(whole) == len(line) else _head(line, limit - 1) + "…"


def same_text(one: str | None, other: str) -> bool:
    """Say whether GitHub, which turns line ends into its own and trims, has this text already."""
    return _plain(one or "") == _plain(other)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _head(text: str, limit: int) -> str:
    """Return what fits, counted as GitHub may do it: an emoji weighs two."""
    return text.encode("utf-16-le", "replace")[: 2 * limit].decode("utf-16-le", "ignore")
