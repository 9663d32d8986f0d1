"""Keep a report within GitHub's limits: what matters least is told shorter, then left out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Bytes of a comment; GitHub takes 65,536 characters, and a character has one byte at least.
COMMENT_BYTES = 60_000
_CUT = "\n\n<sub>The rest did not fit.</sub>\n"


@dataclass(frozen=True, slots=True)
class Section:
    """The same thing at three lengths; ``row`` is a line of a table, and may be all there is."""

    full: str
    short: str
    row: str


def size(text: str) -> int:
    """Bytes that ``text`` takes."""
    return len(text.encode("utf-8"))


def compose(
    head: str,
    sections: Sequence[Section],
    tail: str,
    *,
    row_heading: str,
    limit: int = COMMENT_BYTES,
) -> str:
    """Join ``head``, ``sections`` and ``tail`` within ``limit`` bytes.

    Sections stand in the order of their importance: the first are told in full, some more in
    short, the others become rows of one table, and the last ones a number.
    """
    room = limit - size(head) - size(tail) - size(row_heading) - 200
    shown = list(_fitting(sections, room))
    room -= sum(size(text) + 2 for text in shown)
    rows = list(_rows(sections[len(shown) :], room))
    left_out = len(sections) - len(shown) - len(rows)
    parts = [head, *shown]
    if rows:
        parts.append("\n".join((row_heading, *rows)))
    if left_out:
        parts.append(f"<sub>and {left_out:,} more before that</sub>")
    return cut("\n\n".join((*parts, tail)) if tail else "\n\n".join(parts), limit)


def cut(text: str, limit: int) -> str:
    """``text``, or as many of its whole lines as ``limit`` bytes hold, with nothing left open.

    The last resort: whoever writes a report keeps to less.
    """
    if size(text) <= limit:
        return text
    room, lines = limit - size(_CUT) - 100, list[str]()
    for line in text.split("\n"):
        room -= size(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines) + _closing(lines) + _CUT


def _fitting(sections: Sequence[Section], room: int) -> Iterator[str]:
    """The first sections, as long as the rows of all others fit behind them."""
    reserve = sum(size(section.row) + 1 for section in sections)
    reserve = min(reserve, room // 3)
    for section in sections:
        reserve = max(0, reserve - size(section.row) - 1)
        text = next(
            (text for text in (section.full, section.short) if size(text) + 2 + reserve <= room),
            None,
        )
        if not text:
            return
        room -= size(text) + 2
        yield text


def _rows(sections: Sequence[Section], room: int) -> Iterator[str]:
    for section in sections:
        room -= size(section.row) + 1
        if room < 0:
            return
        yield section.row


def _closing(lines: Sequence[str]) -> str:
    """What closes the fence and the folded sections that are still open."""
    fence, folded = "", 0
    for line in lines:
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if not fence and len(ticks) >= 3:  # noqa: PLR2004 - the shortest fence
            fence = ticks
        elif fence and line.rstrip() == fence:
            fence = ""
        elif not fence:
            folded += line.startswith("<details") - line.startswith("</details>")
    return (f"\n{fence}" if fence else "") + "\n\n</details>" * folded
