"""Commit messages: a subject, a wrapped body, and trailers that nothing in the text can forge."""

import re
import textwrap
from collections.abc import Mapping

_SUBJECT_WIDTH = 72
_BODY_WIDTH = 76
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_TRAILER = re.compile(rf"({_KEY.pattern}):[ \t]*(.*)")
#: Terminal controls, and the marks that reverse the reading direction.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: What a forge would turn into a notification or use to close an issue.
_REFERENCE = re.compile(r"(?<![\w.@])@(?=\w)|#(?=\d)|(?<=\bGH)-(?=\d)", re.IGNORECASE)
#: Line starts with a meaning to git or a forge: comments, the end of a message, trailers.
_MEANINGFUL_LINE = re.compile(r"(?=#|;|---|[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+:)")
_JOINER = "\u2060"


def message(subject: str, body: str, trailers: Mapping[str, str]) -> str:
    """Compose a commit message; ``subject`` and ``body`` may hold text that nobody vouches for.

    Raises ValueError without a trailer (the body's last paragraph could pose as them), or if a
    trailer's key is not a word.
    """
    if not trailers or not all(_KEY.fullmatch(key) for key in trailers):
        raise ValueError(f"trailers need keys of letters, digits and hyphens: {list(trailers)}")
    facts = "\n".join(f"{key}: {_one_line(value)}".rstrip() for key, value in trailers.items())
    parts = (_subject(subject), _body(body), facts)
    return "\n\n".join(part for part in parts if part) + "\n"


def parse_trailers(text: str) -> dict[str, str]:
    """Return the trailers of a message's last paragraph, by key; the last of equal keys counts."""
    paragraphs = re.split(r"\n[ \t]*\n", text.strip("\n"))
    if len(paragraphs) < 2:  # noqa: PLR2004
        return {}
    unfolded = re.sub(r"\n[ \t]+", " ", paragraphs[-1])
    found = (_TRAILER.fullmatch(line) for line in unfolded.split("\n"))
    return {match[1]: match[2].strip() for match in found if match}


def _one_line(text: str) -> str:
    return " ".join(_UNPRINTABLE.sub(" ", text).split())


def _inert(text: str) -> str:
    return _REFERENCE.sub(
        lambda mark: _JOINER + mark[0] if mark[0] == "-" else mark[0] + _JOINER, text
    )


def _subject(text: str) -> str:
    line = _inert(_one_line(text)).lstrip("#;- ") or "Update the skill"
    if len(line) <= _SUBJECT_WIDTH:
        return line
    kept = line[: _SUBJECT_WIDTH - 1]
    return (kept.rpartition(" ")[0] or kept) + "…"


def _body(text: str) -> str:
    lines = _inert(_UNPRINTABLE.sub("", text)).expandtabs(4).splitlines()
    wrapped = (part for line in lines for part in _wrapped(line))
    kept = "\n".join(_guarded(line) for line in wrapped).strip("\n")
    return re.sub(r"\n{3,}", "\n\n", kept)


def _wrapped(line: str) -> list[str]:
    indent = re.match(r"\s*(?:[-*+] |\d+[.)] )?", line)
    hang = " " * len(indent[0] if indent else "")
    return textwrap.wrap(
        line, _BODY_WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
    ) or [""]


def _guarded(line: str) -> str:
    return " " + line if _MEANINGFUL_LINE.match(line) else line
