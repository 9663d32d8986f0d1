"""What people see while and after a command works: progress, and tables that fit 80 columns."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from skillopt_ci import progress
from skillopt_ci.cli.options import Globals, build_console, is_live
from skillopt_ci.sanitize import harmless, harmless_line
from skillopt_ci.text import cost_text, plural, rounded

_NAME_WIDTH = 12
_MINUTE, _HOUR = 60, 3600


def rate_text(done: int, seconds: float) -> str:
    """A mean rate in the unit that makes it readable; nothing before there is one."""
    if done == 0 or seconds <= 0:
        return ""
    rate = done / seconds
    return f"{rate:.1f}/s" if rate >= 1 else f"{rate * _MINUTE:.1f}/min"


def time_text(seconds: float) -> str:
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"


class ProgressDisplay:
    """Shows a command's events on ``stream``, as far as ``settings`` ask for them.

    On a terminal, each stage under way has a bar, above the run's figures. A log has a line where a
    stage starts, and at most one per ``interval`` seconds. Each stage that ends leaves a line.
    While a person works at the terminal there are only these: bars would erase what is typed.
    """

    def __init__(
        self,
        stream: TextIO,
        settings: Globals,
        clock: Callable[[], float] = time.monotonic,
        interval: float = 10.0,
    ) -> None:
        self._stream, self._clock, self._interval = stream, clock, interval
        self._warns_only = settings.verbosity < 0
        self._notes_only = self._warns_only or not settings.progress
        self._live = self._draws = is_live(stream, settings.environ)
        self._began = self._last_line = clock()
        self._step: progress.StepStarted | None = None
        self._calls, self._tokens = 0, 0
        self._cost: float | None = 0.0
        self.console = build_console(stream, settings.environ)
        self._stages = _Bars(
            self,
            SpinnerColumn(style="cyan", finished_text=" "),
            TextColumn("{task.description}", "bold", markup=False, table_column=_NAME),
            BarColumn(18, "bright_black", "cyan", "cyan", "bright_black"),
            _Figures(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[detail]}", "bright_black", markup=False, table_column=_DETAIL),
            console=self.console,
            transient=True,
            expand=True,
            redirect_stdout=False,
            refresh_per_second=5,
            get_time=clock,
        )

    def __call__(self, event: progress.Event) -> None:
        if isinstance(event, progress.Note):
            warning = event.level == "warning"
            if warning or not self._warns_only:
                mark, style = ("! warning: ", "yellow") if warning else ("· ", "bright_black")
                self._write(Text(mark, style).append(harmless_line(event.text), "default"))
        elif not self._notes_only:
            match event:
                case progress.StepStarted():
                    self._step = event
                    if not self._live:
                        last = f", the last step {harmless_line(event.last)}" if event.last else ""
                        score = f"{rounded(event.score)} on {plural(event.tasks, 'task')}"
                        place = f"{event.step} of {event.total}, epoch {event.epoch}"
                        self._line("·", "step", f"{place}: the skill scores {score}{last}")
                case progress.CallPaid(tokens=tokens, cost_usd=cost):
                    self._cost = None if self._cost is None or cost is None else self._cost + cost
                    self._calls, self._tokens = self._calls + 1, self._tokens + tokens
                case progress.TerminalLent():
                    self.close()
                    self._draws = False
                case _:
                    self._show_stage(event)

    def close(self) -> None:
        if self._draws:  # else rich would write an empty line
            self._stages.stop()

    def _show_stage(self, event: progress.StageEvent) -> None:
        name = harmless_line(event.stage)
        task = next((one for one in self._stages.tasks if one.description == name), None)
        if task is not None and not isinstance(event, progress.StageAdvanced):
            self._stages.remove_task(task.id)
        match event:
            case progress.StageStarted(total=total):
                self._stages.add_task(name, total=total or None, detail="")
                if not self._live:
                    self._line("·", name, f"{total:,} to do" if total else "…")
            case progress.StageAdvanced(detail=detail):
                if task is None:
                    self._stages.add_task(name, total=None)
                    task = self._stages.tasks[-1]
                self._stages.update(task.id, advance=1, detail=harmless_line(detail))
                if not self._live and self._clock() - self._last_line >= self._interval:
                    of = f" of {task.total:,.0f}" if task.total else ""
                    about = f": {task.fields['detail']}" if task.fields["detail"] else ""
                    after = time_text(task.elapsed or 0.0)
                    self._line("·", name, f"{task.completed:,.0f}{of} after {after}{about}")
            case progress.StageFinished(summary=summary):
                seconds = 0.0 if task is None else task.elapsed or 0.0
                took = f"({time_text(seconds)})" if seconds >= 1 else ""
                told = " ".join(filter(None, (harmless_line(summary), took)))
                if not self._stages.tasks:
                    self.close()
                style = verdict_style(told) if name == "gate" else "default"
                self._line("✓", name, told or "done", style)
        if self._draws and not isinstance(event, progress.StageFinished):
            self._stages.start()

    def _line(self, mark: str, name: str, text: str, style: str = "default") -> None:
        self._last_line = self._clock()
        head = Text(f"{mark} ", "green").append(f"{name:<{_NAME_WIDTH}} ", "bold")
        self._write(head.append(text, style))

    def _write(self, line: Text) -> None:
        if self._live:
            self.console.print(line)
        else:
            with suppress(OSError):  # a log that nobody reads any more must not stop training
                self._stream.write(f"{line.plain}\n")
                self._stream.flush()

    def run_line(self, width: int) -> str:
        """``step 3/12 epoch 1 · skill 0.675 · last merged · 40 calls · $1.20 · 9,000 tokens``.

        What does not fit is left out whole: a figure that is cut off would be another figure.
        """
        parts: dict[str, str] = {}
        if (step := self._step) is not None:
            parts["place"] = f"step {step.step}/{step.total} epoch {step.epoch}"
            parts["skill"] = f"skill {rounded(step.score)}"
            if step.last:
                # the first words of the verdict: the figures after it have to fit in 80 columns
                parts["last"] = f"last {harmless_line(step.last).partition(',')[0]}"
        if self._calls:
            rate = rate_text(self._calls, self._clock() - self._began)
            parts["calls"] = f"{plural(self._calls, 'call')} {rate}".rstrip()
            if self._cost is not None:
                parts["cost"] = cost_text(self._cost)
            parts["tokens"] = f"{self._tokens:,} tokens"
        for spare in ("tokens", "last", "skill", "cost"):
            if len(" · ".join(parts.values())) > width:
                parts.pop(spare, None)
        return " · ".join(parts.values())


def verdict_style(verdict: str) -> str:
    return "green" if verdict.startswith("merged") else "yellow"


_NAME = Column(width=_NAME_WIDTH, no_wrap=True)
_DETAIL = Column(no_wrap=True, overflow="ellipsis", ratio=1)


class _Bars(Progress):
    def __init__(self, display: ProgressDisplay, *columns: ProgressColumn, **how: Any) -> None:
        self._display = display
        super().__init__(*columns, **how)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        if text := self._display.run_line(self._display.console.width):
            yield Text(text, "bright_black", no_wrap=True, overflow="ellipsis")


class _Figures(ProgressColumn):
    def render(self, task: Task) -> Text:
        done, seconds = int(task.completed), task.elapsed or 0.0
        count = f"{done}/{task.total:.0f}" if task.total else f"{done}"
        return Text(f"{count:>7} {rate_text(done, seconds):>8} {time_text(seconds):>11}")


# Tables, with and without colour.

_GAP = "  "
#: Spaces at the end of a line, and the codes among them, of which the last ends the style.
_PADDING = re.compile(r"(?: |(\x1b\[[\d;]*m))+$", re.MULTILINE)
#: Columns of the terminal that a sentence needs at least.
_READABLE = 26


def print_rows(settings: Globals, title: str, rows: Sequence[tuple[str, str]]) -> None:
    cells = [
        (
            Text(harmless(label), "dim"),
            Text(harmless(value), verdict_style(value) if label == "verdict" else ""),
        )
        for label, value in rows
    ]
    _print(settings, title, cells, headed=False)


def print_table(
    settings: Globals,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    dispensable: Sequence[str] = (),
) -> None:
    """Print rows under headings, where people read; the last column takes the room that is left.

    Where that is too little, columns with ``dispensable`` headings go, the first of them first.
    """
    cells = [[harmless(str(cell)) for cell in row] for row in (headings, *rows)]
    width = build_console(settings.people, settings.environ).width
    for spare in (*dispensable, ""):  # the last turn only measures what is left
        *leading, last = (max(map(cell_len, column)) for column in zip(*cells, strict=True))
        room = width - sum(leading) - len(_GAP) * (len(leading) + 1)
        if spare and room < min(last, _READABLE):
            out = cells[0].index(spare)
            cells = [row[:out] + row[out + 1 :] for row in cells]
    # to rich, which takes its time with each cell, all columns but the last are one
    drawn = [
        (Text(_GAP.join(map(set_cell_size, row[:-1], leading))), Text(row[-1])) for row in cells
    ]
    _print(settings, title, drawn, headed=True)


def _print(
    settings: Globals, title: str, rows: Sequence[tuple[Text, Text]], *, headed: bool
) -> None:
    """Print ``rows`` where people read, without the spaces that rich puts at the end of lines."""
    stream, headings = settings.people, rows[0] if headed else ("", "")
    console = build_console(stream, settings.environ)
    table = Table(show_header=headed, header_style="bold", box=None, padding=(0, len(_GAP), 0, 0))
    table.add_column(headings[0], no_wrap=headed)
    table.add_column(headings[1], overflow="fold")
    for row in rows[1:] if headed else rows:
        table.add_row(*row)
    with console.capture() as drawn:
        if title:  # as wide as the terminal: rich's own titles are no wider than their table
            console.print(Text(harmless(title), "bold"))
        console.print(table)
    lines = _PADDING.sub(r"\1", drawn.get()).splitlines()
    # once more as whole lines, for what only comes together in them
    stream.writelines(f"{line if console.is_terminal else harmless(line)}\n" for line in lines)
    stream.flush()
