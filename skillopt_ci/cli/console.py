"""The terminal: whether it takes colour, and the console that draws on it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Say whether ``stream`` is a terminal on which lines can be redrawn."""
    return stream.isatty() and environ.get("TERM") != "dumb"


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Say whether to colour ``stream``: a capable terminal, and no ``NO_COLOR``."""
    return is_live(stream, environ) and not environ.get("NO_COLOR")


def build_console(stream: TextIO, environ: Mapping[str, str]) -> "Console":
    """Build the console for messages and progress on ``stream`` (standard error, as a rule)."""
    from rich.console import Console  # noqa: PLC0415 - only commands that draw pay for it

    live = is_live(stream, environ)
    return Console(
        file=stream,
        force_terminal=live,
        no_color=not wants_colour(stream, environ),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not live,
        _environ=environ,
    )
