"""Progress for logs: whole lines, few of them."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TextIO

from skillopt_ci.cli.options import Globals, build_console, is_live
from skillopt_ci.progress import (
    CallPaid,
    Event,
    Note,
    Observer,
    StageAdvanced,
    StageFinished,
    StageStarted,
    StepStarted,
    TerminalLent,
    silent,
)
from skillopt_ci.sanitize import harmless_line
from skillopt_ci.text import plural

# What is known of the stages under way, and the words for it.

NAME_WIDTH = 11
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage under way: ``total`` is 0 if unknown, ``started`` a time of the observer's clock."""

    name: str
    total: int
    started: float
    done: int = 0
    detail: str = ""


Stages = dict[str, Stage]


def after(
    stages: Stages, event: StageStarted | StageAdvanced | StageFinished, now: float
) -> Stages:
    """Return the stages under way after ``event``."""
    others = {name: stage for name, stage in stages.items() if name != event.stage}
    if isinstance(event, StageFinished):
        return others
    if isinstance(event, StageStarted):
        return others | {event.stage: Stage(event.stage, event.total, now)}
    stage = stages.get(event.stage, Stage(event.stage, 0, now))
    advanced = replace(stage, done=stage.done + 1, detail=harmless_line(event.detail))
    return stages | {event.stage: advanced}


def count_text(stage: Stage) -> str:
    """``17 of 40``, or ``17`` where nobody knows how many there will be."""
    return f"{stage.done} of {stage.total}" if stage.total else f"{stage.done}"


def rate_text(done: int, seconds: float) -> str:
    """A mean rate in the unit that makes it readable; nothing before there is one."""
    if done == 0 or seconds <= 0:
        return ""
    rate = done / seconds
    return f"{rate:.1f}/s" if rate >= 1 else f"{rate * _MINUTE:.1f}/min"


def time_text(seconds: float) -> str:
    """``8 s``, ``1 min 12 s``, ``2 h 03 min``."""
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"


def finished_text(event: StageFinished, stage: Stage | None, now: float) -> str:
    """What a finished stage leaves on the screen: its summary, and its time if it took any."""
    summary = harmless_line(event.summary)
    seconds = 0.0 if stage is None else now - stage.started
    took = f"({time_text(seconds)})" if seconds >= 1 else ""
    return " ".join(part for part in (summary, took) if part) or "done"


# Where the run stands and what this command has consumed, on one line.

_THOUSAND, _MILLION = 1_000, 1_000_000


@dataclass(frozen=True, slots=True)
class RunLine:
    """What the line says; ``began`` is a time of the observer's clock, ``cost`` None if unknown."""

    began: float
    step: StepStarted | None = None
    calls: int = 0
    tokens: int = 0
    cost: float | None = 0.0


def noted(line: RunLine, event: Event) -> RunLine:
    """The line after ``event``; most events do not change it."""
    if isinstance(event, StepStarted):
        return replace(line, step=event)
    if isinstance(event, CallPaid):
        unknown = line.cost is None or event.cost_usd is None
        cost = None if unknown else (line.cost or 0.0) + (event.cost_usd or 0.0)
        tokens = line.tokens + event.tokens
        return replace(line, calls=line.calls + 1, tokens=tokens, cost=cost)
    return line


def run_line_text(line: RunLine, now: float, width: int | None = None) -> str:
    """``step 3/12 epoch 1 · skill 0.675 · last merged · 40 calls 4.0/s · $1.20 · 60k tokens``.

    What does not fit into ``width`` columns is left out as a whole, the least missed first: a
    figure that is cut off would be another figure.
    """
    parts = {**_standing(line.step), **_consumed(line, now)}
    for spare in ("tokens", "last", "skill", "cost"):
        if width is not None and len(_joined(parts)) > width:
            parts.pop(spare, None)
    return _joined(parts)


def _joined(parts: Mapping[str, str]) -> str:
    return " · ".join(parts.values())


def step_text(step: StepStarted) -> str:
    """The beginning of a step, for logs."""
    last = f", the last step {harmless_line(step.last)}" if step.last else ""
    return (
        f"{step.step} of {step.total}, epoch {step.epoch}: the skill scores {step.score:.3f} "
        f"on {plural(step.tasks, 'task')}{last}"
    )


def _standing(step: StepStarted | None) -> dict[str, str]:
    if step is None:
        return {}
    # the first words of the verdict: the figures after it have to fit in 80 columns
    last = {"last": f"last {harmless_line(step.last).partition(',')[0]}"} if step.last else {}
    place = f"step {step.step}/{step.total} epoch {step.epoch}"
    return {"place": place, "skill": f"skill {step.score:.3f}", **last}


def _consumed(line: RunLine, now: float) -> dict[str, str]:
    if line.calls == 0:
        return {}
    calls = f"{plural(line.calls, 'call')} {rate_text(line.calls, now - line.began)}".rstrip()
    cost = {} if line.cost is None else {"cost": f"${line.cost:.2f}"}
    return {"calls": calls, **cost, "tokens": f"{_short(line.tokens)} tokens"}


def _short(count: int) -> str:
    if count < _THOUSAND:
        return str(count)
    if count < _MILLION:
        return f"{count / _THOUSAND:.0f}k"
    return f"{count / _MILLION:.1f}M"


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


# Picks how progress is shown: drawn on a terminal, written to a log, or not at all.


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
