"""Print tables that read well in 80 columns, with and without colour."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.table import Table
from rich.text import Text

from skillopt_ci.cli.console import build_console
from skillopt_ci.cli.harmless import harmless


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
) -> None:
    """Print rows under headings; the last column takes the room that is left."""
    table = _table(title, show_header=True)
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True)
    table.add_column(headings[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    _print(table, stream, environ)


def _table(title: str, *, show_header: bool) -> Table:
    return Table(
        title=Text(harmless(title), "bold") if title else None,
        title_justify="left",
        show_header=show_header,
        header_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
    )


def _print(table: Table, stream: TextIO, environ: Mapping[str, str]) -> None:
    console = build_console(stream, environ)
    with console.capture() as drawn:
        console.print(table)
    # cells are padded to the width of their column, the last one of a line for nothing
    stream.writelines(f"{line.rstrip()}\n" for line in drawn.get().splitlines())
    stream.flush()
