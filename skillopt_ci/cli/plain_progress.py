"""Progress for logs: whole lines, few of them."""

from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from skillopt_ci.cli.run_line import step_text
from skillopt_ci.cli.stages import NAME_WIDTH, Stages, after, count_text, finished_text, time_text
from skillopt_ci.progress import (
    CallPaid,
    Event,
    Note,
    StageAdvanced,
    StageFinished,
    StageStarted,
    StepStarted,
    TerminalLent,
)
from skillopt_ci.sanitize import harmless_line

Clock = Callable[[], float]


class PlainProgress:
    """Writes a line when a stage starts and ends, and at most one per ``interval`` seconds between.

    ``clock`` counts seconds from any origin.
    """

    def __init__(self, stream: TextIO, clock: Clock, interval: float = 10.0) -> None:
        self._stream = stream
        self._clock = clock
        self._interval = interval
        self._stages: Stages = {}
        self._last_line = clock()

    def __call__(self, event: Event) -> None:
        """Write what ``event`` says, unless it is too soon to say more."""
        if isinstance(event, Note):
            return self._write(note_text(event))
        if isinstance(event, StepStarted):
            return self._line("·", "step", step_text(event))
        if isinstance(event, CallPaid | TerminalLent):
            return None
        stage = self._stages.get(event.stage)
        now = self._clock()
        self._stages = after(self._stages, event, now)
        match event:
            case StageStarted(total=total):
                self._line("·", event.stage, f"{total} to do" if total else "…")
            case StageAdvanced() if now - self._last_line >= self._interval:
                self._advanced(event.stage, now)
            case StageFinished():
                self._line("✓", event.stage, finished_text(event, stage, now))
        return None

    def _advanced(self, name: str, now: float) -> None:
        stage = self._stages[name]
        detail = f": {stage.detail}" if stage.detail else ""
        so_far = f"{count_text(stage)} after {time_text(now - stage.started)}"
        self._line("·", name, so_far + detail)

    def _line(self, mark: str, name: str, text: str) -> None:
        self._last_line = self._clock()
        self._write(f"{mark} {harmless_line(name):<{NAME_WIDTH}} {text}")

    def _write(self, line: str) -> None:
        # a log that nobody takes any more is no reason to stop training
        with suppress(OSError):
            self._stream.write(f"{line}\n")
            self._stream.flush()


class NotesOnly:
    """Writes notes and no progress; only warnings when ``quiet``."""

    def __init__(self, stream: TextIO, *, quiet: bool) -> None:
        self._stream = stream
        self._quiet = quiet

    def __call__(self, event: Event) -> None:
        """Write ``event`` if it is a note that is asked for."""
        if isinstance(event, Note) and (event.level == "warning" or not self._quiet):
            with suppress(OSError):
                self._stream.write(f"{note_text(event)}\n")
                self._stream.flush()


def note_text(note: Note) -> str:
    """A note as one line."""
    label = "warning: " if note.level == "warning" else ""
    return f"{'!' if label else '·'} {label}{harmless_line(note.text)}"
