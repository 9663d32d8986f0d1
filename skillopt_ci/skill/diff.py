"""Differences between two texts: a unified diff, and rows with changed words marked."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_NO_NEWLINE = "\n\\ No newline at end of file\n"


def unified_diff(before: str, after: str, name: str = "SKILL.md", context: int = 3) -> str:
    """A diff in the format of ``git apply``; untrusted, as the documents are."""
    old, new = (re.findall(".*\n|.+", text) for text in (before, after))
    found = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=context)
    return "".join(line if line.endswith("\n") else line + _NO_NEWLINE for line in found)


def undone(before: str, after: str, now: str) -> str | None:
    """Undo in ``now`` the change from ``before`` to ``after``; None if it was changed since.

    A three-way merge that allows changes in adjacent lines, since rules often adjoin.
    """
    old, new, lines = (text.splitlines(keepends=True) for text in (before, after, now))
    found = {
        block.a + offset: block.b + offset
        for block in difflib.SequenceMatcher(None, new, lines, autojunk=False).get_matching_blocks()
        for offset in range(block.size)
    }
    found |= {-1: -1, len(new): len(lines)}
    for tag, i, j, first, last in reversed(
        difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    ):
        if tag == "equal":
            continue
        # Empty lines are all alike, so locate the change by lines with text first.
        told = sorted(range(first, last), key=lambda number: not new[number].strip())
        starts = [found[number] - number + first for number in told if number in found]
        above = found.get(first - 1)
        if first == last:
            starts = [found.get(last, -1) if above is None else above + 1]
        start, gone = starts[0] if starts else -1, new[first:last]
        if start < 0 or lines[start : start + len(gone)] != gone:
            return None
        lines[start : start + len(gone)] = old[i:j]
    return "".join(lines)


def lines_of(text: str) -> list[str]:
    # Not `splitlines`: git does not treat form feeds and the like as line breaks.
    return text.removesuffix("\n").split("\n") if text else []


_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_CONTEXT = 2
#: Lines less similar than this count as removed and added, not as changed.
_ALIKE = 0.5
#: The most pairs of lines or words that are compared exactly.
_QUICK = 1_000_000


@dataclass(frozen=True, slots=True)
class DiffSpan:
    """A part of a line; ``changed`` if it differs from the other version."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A line of a diff; a ``gap`` stands for hidden unchanged lines."""

    kind: Literal["same", "removed", "added", "gap"]
    spans: tuple[DiffSpan, ...]

    @property
    def sign(self) -> str:
        return {"same": " ", "removed": "−", "added": "+", "gap": "⋯"}[self.kind]


def diff_rows(before: str, after: str) -> tuple[DiffRow, ...]:
    old, new = lines_of(before), lines_of(after)
    rows: list[DiffRow] = []
    for group in matcher(old, new).get_grouped_opcodes(_CONTEXT):
        if group[0][1] > 0 or rows:
            rows.append(DiffRow("gap", ()))
        for tag, a, b, c, d in group:
            if tag == "equal":
                rows += [_plain("same", line) for line in old[a:b]]
            else:
                rows += _changed(old[a:b], new[c:d])
    return tuple(rows)


def matcher(old: Sequence[str], new: Sequence[str]) -> difflib.SequenceMatcher[str]:
    # In long texts, treat frequent items as junk; else each is compared with all its repetitions.
    return difflib.SequenceMatcher(None, old, new, autojunk=len(old) * len(new) > _QUICK)


def _plain(kind: Literal["same", "removed", "added"], line: str) -> DiffRow:
    return DiffRow(kind, (DiffSpan(line),))


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffRow]:
    pairs = [_pair(one, other) for one, other in zip(old, new, strict=False)]
    yield from (removed for removed, _ in pairs)
    yield from (_plain("removed", line) for line in old[len(pairs) :])
    yield from (added for _, added in pairs)
    yield from (_plain("added", line) for line in new[len(pairs) :])


def _pair(old: str, new: str) -> tuple[DiffRow, DiffRow]:
    one, other = _WORDS.findall(old), _WORDS.findall(new)
    found = matcher(one, other)
    if found.ratio() < _ALIKE:
        return _plain("removed", old), _plain("added", new)
    codes = found.get_opcodes()
    removed = (DiffSpan("".join(one[a:b]), tag != "equal") for tag, a, b, _, _ in codes if a < b)
    added = (DiffSpan("".join(other[c:d]), tag != "equal") for tag, _, _, c, d in codes if c < d)
    return DiffRow("removed", tuple(removed)), DiffRow("added", tuple(added))
