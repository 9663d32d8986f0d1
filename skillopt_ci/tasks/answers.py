"""Taking the answer out of a response."""

import re

from skillopt_ci.config.scorers import AnswerFrom

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>.*)$")


def extract(response: str, how: AnswerFrom, tag: str = "answer") -> str:
    """The answer inside ``response``.

    ``tag`` and ``fence`` fall back to the last non-empty line when the response has none; an
    answer that is there but empty stays empty.
    """
    found: str | None
    match how:
        case "text":
            return response.strip()
        case "last_line":
            found = None
        case "tag":
            found = last_tagged(response, tag)
        case "fence":
            found = last_fenced(response)
    return last_line(response) if found is None else found


def last_tagged(text: str, tag: str) -> str | None:
    """Content of the last complete ``<tag>…</tag>``, in any letter case; None without one."""
    opening, closing = rf"<{re.escape(tag)}\s*>", rf"</{re.escape(tag)}\s*>"
    # The content holds no further tag: a draft that was never closed is not part of the answer.
    pattern = rf"{opening}((?:(?!{opening}|{closing}).)*){closing}"
    contents = re.findall(pattern, text, re.IGNORECASE | re.DOTALL)
    return str(contents[-1]).strip() if contents else None


def last_line(text: str) -> str:
    """The last line that is not blank, trimmed; empty if all are."""
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def last_fenced(text: str) -> str | None:
    """Content of the last block between fences of backticks or tildes; None without one.

    A block that is never closed reaches to the end of the text, as in CommonMark; fences may be
    indented, as they are in lists, and their indentation is taken off the content.
    """
    last: list[str] | None = None
    opening: re.Match[str] | None = None
    for line in text.splitlines():
        fence = _FENCE.match(line)
        if opening is None:
            if fence is not None and _opens(fence):
                opening, last = fence, []
        elif fence is not None and _closes(fence, opening):
            opening = None
        elif last is not None:
            last.append(_dedented(line, len(opening["indent"])))
    return None if last is None else "\n".join(last).strip("\n")


def _opens(fence: re.Match[str]) -> bool:
    return fence["mark"][0] == "~" or "`" not in fence["info"]


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    return fence["mark"].startswith(opening["mark"]) and not fence["info"].strip()


def _dedented(line: str, width: int) -> str:
    return line[min(width, len(line) - len(line.lstrip(" \t"))) :]
