"""A word-aware diff for people: colours on a terminal, brackets around changed words elsewhere."""

from collections.abc import Iterator, Mapping
from typing import TextIO

from rich.console import Console
from rich.text import Text

from skillopt_ci.cli.console import build_console, wants_colour
from skillopt_ci.report.text import plural
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.skill.diff import DiffRow, diff_rows
from skillopt_ci.skill.document import word_count
from skillopt_ci.training.offline_eval import NamedSkill

_STYLES = {"same": "default", "removed": "red", "added": "green", "gap": "dim"}
#: What git puts around changed words where there are no colours.
_BRACKETS = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
_MARGIN = 2


def print_diff(
    old: NamedSkill, new: NamedSkill, stream: TextIO, environ: Mapping[str, str]
) -> None:
    """Print what changed from ``old`` to ``new``, no line wider than the terminal."""
    console, colour = build_console(stream, environ), wants_colour(stream, environ)
    rows = diff_rows(old.text, new.text)
    with console.capture() as drawn:
        for line in (*_header(old, new, rows), *_lines(rows, console, colour=colour)):
            console.print(line, soft_wrap=True)
    lines = (line.rstrip() for line in drawn.get().splitlines())
    # once more as whole lines, for what only comes together in them
    stream.writelines(f"{line if colour else harmless(line)}\n" for line in lines)
    stream.flush()


def _header(old: NamedSkill, new: NamedSkill, rows: tuple[DiffRow, ...]) -> Iterator[Text]:
    if not rows:
        yield Text(f"The skill is the same in {_name(old)} and {_name(new)}.")
        return
    kinds = [row.kind for row in rows]
    yield Text(f"− {_name(old)}, {plural(word_count(old.text), 'word')}", "bold red")
    yield Text(f"+ {_name(new)}, {plural(word_count(new.text), 'word')}", "bold green")
    removed, added = plural(kinds.count("removed"), "line"), plural(kinds.count("added"), "line")
    yield Text(f"{removed} removed or changed, {added} added or changed", "dim")
    yield Text("")


def _name(skill: NamedSkill) -> str:
    return harmless_line(skill.name)


def _lines(rows: tuple[DiffRow, ...], console: Console, *, colour: bool) -> Iterator[Text]:
    for row in rows:
        style = _STYLES[row.kind]
        whole = _text(row, colour=colour)
        whole.expand_tabs(4)
        folded = whole.wrap(console, max(console.width - _MARGIN, _MARGIN)) if whole else [whole]
        for number, part in enumerate(folded):
            # the sign again: a line that was folded is to be told from one that is the same
            sign = row.sign if number == 0 or row.kind in _BRACKETS else " "
            yield Text(f"{sign} ", style).append_text(part)


def _text(row: DiffRow, *, colour: bool) -> Text:
    style = _STYLES[row.kind]
    whole = Text(style=style)
    # brackets tell a part of a line; a line that changed as a whole has its sign
    partly = any(not span.changed for span in row.spans)
    for span in row.spans:
        changed = span.changed and partly
        opening, closing = _BRACKETS.get(row.kind, ("", "")) if changed and not colour else ("", "")
        emphasis = "bold underline" if changed else ""
        whole.append(f"{opening}{harmless(span.text)}{closing}", emphasis)
    return whole
