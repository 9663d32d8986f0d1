"""Picks how progress is shown: drawn on a terminal, written to a log, or not at all."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from skillopt_ci.cli.console import build_console, is_live
from skillopt_ci.cli.context import Globals
from skillopt_ci.cli.plain_progress import NotesOnly, PlainProgress
from skillopt_ci.progress import Observer, silent


@contextmanager
def build_observer(settings: Globals) -> Iterator[Observer]:
    """Give the observer that fits the options and standard error; tidy the terminal at the end."""
    stream = sys.stderr
    if stream is None:
        yield silent
    elif settings.verbosity < 0 or not settings.progress:
        yield NotesOnly(stream, quiet=settings.verbosity < 0)
    elif not is_live(stream, settings.environ):
        yield PlainProgress(stream, time.monotonic)
    else:
        from skillopt_ci.cli.rich_progress import RichProgress  # noqa: PLC0415 - logs need no rich

        progress = RichProgress(build_console(stream, settings.environ), time.monotonic)
        try:
            yield progress
        finally:
            progress.close()
