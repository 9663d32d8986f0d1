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

    table = Table(
        title=Text(harmless(title)),
        title_justify="left",
        title_style="bold",
        show_header=False,
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, Text(harmless(value)))
    console = build_console(stream, environ)
    console.print(table)


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    stream: TextIO,
    environ: Mapping[str, str],
) -> None:
    """Print rows under headings; the last column takes the room that is left."""

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True)
    table.add_column(headings[-1], overflow="fold")
    for row in rows:
        table.add_row(*(Text(harmless(cell)) for cell in row))
    build_console(stream, environ).print(table)
