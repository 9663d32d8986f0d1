"""Print tables that read well in 80 columns, with and without colour."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from skillopt_ci.cli.options import Globals, build_console
from skillopt_ci.sanitize import harmless

_GAP = "  "
#: Columns of the terminal that a sentence needs at least.
_READABLE = 26


def print_rows(settings: Globals, title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print label and value pairs under a title, where people read."""
    table = _table(title, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(Text(harmless(label)), Text(harmless(value)))
    _print(settings, table)


def print_table(
    settings: Globals,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    dispensable: Sequence[str] = (),
) -> None:
    """Print rows under headings, where people read; the last column takes the room that is left.

    Where that is too little to read in, the columns with ``dispensable`` headings are left out,
    the first of them first.
    """
    cells = [[harmless(cell) for cell in row] for row in (headings, *rows)]
    width = build_console(settings.people, settings.environ).width
    for spare in dispensable:
        if _room(cells, width) < _READABLE:
            out = cells[0].index(spare)
            cells = [row[:out] + row[out + 1 :] for row in cells]
    # All columns but the last are one to rich, which would draw a thousand rows of eight cells in
    # most of a second.
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    table = _table(title, show_header=True)
    for number, row in enumerate(cells):
        leading = _GAP.join(map(set_cell_size, row[:-1], widths))
        if number == 0:
            table.add_column(Text(leading), no_wrap=True)
            table.add_column(Text(row[-1]), overflow="fold")
        else:
            table.add_row(Text(leading), Text(row[-1]))
    _print(settings, table)


def _room(cells: Sequence[Sequence[str]], width: int) -> int:
    """How wide the last column may get, at most as wide as it needs to be readable."""
    *leading, last = (max(map(cell_len, column)) for column in zip(*cells, strict=True))
    left = width - sum(leading) - len(_GAP) * (len(leading) + 1)
    return _READABLE if last <= left else left


def _table(title: str, *, show_header: bool) -> Table:
    return Table(
        title=Text(harmless(title), "bold") if title else None,
        title_justify="left",
        show_header=show_header,
        header_style="bold",
        box=None,
        padding=(0, len(_GAP), 0, 0),
    )


def _print(settings: Globals, table: Table) -> None:
    console = build_console(settings.people, settings.environ)
    with console.capture() as drawn:
        console.print(table)
    # cells are padded to the width of their column, the last one of a line for nothing
    settings.people.writelines(f"{line.rstrip()}\n" for line in drawn.get().splitlines())
    settings.people.flush()
