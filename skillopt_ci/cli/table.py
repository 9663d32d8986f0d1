"""Print tables that read well in 80 columns, with and without colour."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from skillopt_ci.cli.options import build_console
from skillopt_ci.sanitize import harmless

_GAP = "  "
#: Columns of the terminal that a sentence needs at least.
_READABLE = 26


def print_rows(
    title: str,
    rows: Sequence[tuple[str, str]],
    stream: TextIO,
    environ: Mapping[str, str],
) -> None:
    """Print label and value pairs under a title."""
    table = _table(title, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(Text(harmless(label)), Text(harmless(value)))
    _print(table, stream, environ)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    stream: TextIO,
    environ: Mapping[str, str],
    title: str = "",
    dispensable: Sequence[str] = (),
) -> None:
    """Print rows under headings; the last column takes the room that is left.

    Where that is too little to read in, the columns with ``dispensable`` headings are left out,
    the first of them first.
    """
    cells = [[harmless(cell) for cell in row] for row in (headings, *rows)]
    width = build_console(stream, environ).width
    for spare in dispensable:
        if _room(cells, width) < _READABLE:
            cells = _without(cells, spare)
    # All columns but the last are one to the table: it would draw a thousand rows of eight cells
    # in most of a second.
    leading = _aligned([row[:-1] for row in cells])
    heading, *texts = zip(leading, (row[-1] for row in cells), strict=True)
    table = _table(title, show_header=True)
    table.add_column(Text(heading[0]), no_wrap=True)
    table.add_column(Text(heading[1]), overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))
    _print(table, stream, environ)


def _room(cells: Sequence[Sequence[str]], width: int) -> int:
    """How wide the last column may get, at most as wide as it needs to be readable."""
    *leading, last = (max(map(cell_len, column)) for column in zip(*cells, strict=True))
    left = width - sum(leading) - len(_GAP) * (len(leading) + 1)
    return _READABLE if last <= left else left


def _without(cells: Sequence[Sequence[str]], heading: str) -> list[list[str]]:
    out = cells[0].index(heading)
    return [[cell for number, cell in enumerate(row) if number != out] for row in cells]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Each row as one line, its cells as wide as the widest of their column."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [_GAP.join(map(set_cell_size, row, widths)) for row in rows]


def _table(title: str, *, show_header: bool) -> Table:
    return Table(
        title=Text(harmless(title), "bold") if title else None,
        title_justify="left",
        show_header=show_header,
        header_style="bold",
        box=None,
        padding=(0, len(_GAP), 0, 0),
    )


def _print(table: Table, stream: TextIO, environ: Mapping[str, str]) -> None:
    console = build_console(stream, environ)
    with console.capture() as drawn:
        console.print(table)
    # cells are padded to the width of their column, the last one of a line for nothing
    stream.writelines(f"{line.rstrip()}\n" for line in drawn.get().splitlines())
    stream.flush()
