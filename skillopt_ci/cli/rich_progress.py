"""Progress for a terminal: a bar for every stage under way, a calm line for every one done.

Below the bars stands where the run is and what this command has consumed. Where a person works at
the terminal there are only the lines: what is redrawn would erase what is being typed.
"""

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID
from rich.table import Column
from rich.text import Text

from skillopt_ci.cli.progress import (
    NAME_WIDTH,
    RunLine,
    Stages,
    after,
    finished_text,
    noted,
    rate_text,
    run_line_text,
    time_text,
)
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

_BAR_WIDTH = 18
_REDRAWS_PER_SECOND = 5


class RichProgress:
    """Draws on ``console`` while stages are under way; :meth:`close` clears what is unfinished."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._stages: Stages = {}
        self._bars: dict[str, TaskID] = {}
        self._line = RunLine(clock())
        self._lent = False
        self._progress = _Bars(
            lambda: run_line_text(self._line, clock(), console.width),
            SpinnerColumn(style="cyan", finished_text=" "),
            _Name(table_column=Column(width=NAME_WIDTH, no_wrap=True)),
            BarColumn(_BAR_WIDTH, "bright_black", "cyan", "cyan", "bright_black"),
            _Figures(table_column=Column(no_wrap=True)),
            _Detail(table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            console=console,
            transient=True,
            expand=True,
            redirect_stdout=False,
            refresh_per_second=_REDRAWS_PER_SECOND,
            get_time=clock,
        )

    def __call__(self, event: Event) -> None:
        """Redraw the bars, and leave a line for a note or a finished stage."""
        if isinstance(event, Note):
            return self._print_note(event)
        if isinstance(event, StepStarted | CallPaid):
            self._line = noted(self._line, event)
            return None
        if isinstance(event, TerminalLent):
            self._lent = True
            return self.close()
        before = self._stages.get(event.stage)
        self._stages = after(self._stages, event, self._clock())
        match event:
            case StageStarted() | StageAdvanced():
                self._draw(event.stage)
            case StageFinished():
                self._erase(event.stage)
                text = finished_text(event, before, self._clock())
                self._print_finished(event.stage, text)
        return None

    def close(self) -> None:
        """Remove the bars and give the terminal back."""
        self._progress.stop()

    def _draw(self, name: str) -> None:
        if self._lent:
            return
        stage = self._stages[name]
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=None, detail="")
        self._progress.update(
            self._bars[name],
            total=stage.total or None,
            completed=stage.done,
            detail=stage.detail,
        )
        self._progress.start()

    def _erase(self, name: str) -> None:
        if name in self._bars:
            self._progress.remove_task(self._bars.pop(name))
        if not self._bars:
            self._progress.stop()

    def _print_finished(self, name: str, text: str) -> None:
        line = Text("✓ ", "green").append(f"{harmless_line(name):<{NAME_WIDTH}} ", "bold")
        self._console.print(line.append(text, "default"))

    def _print_note(self, note: Note) -> None:
        warning = note.level == "warning"
        mark, style = ("! warning: ", "yellow") if warning else ("· ", "bright_black")
        self._console.print(Text(mark, style).append(harmless_line(note.text), "default"))


class _Bars(Progress):
    """Bars with a line of text below, asked for anew at each redrawing."""

    def __init__(self, text: Callable[[], str], *columns: ProgressColumn, **how: Any) -> None:
        self._text = text
        super().__init__(*columns, **how)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        text = self._text()
        if text:
            yield Text(text, "bright_black", no_wrap=True, overflow="ellipsis")


class _Name(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(harmless_line(task.description), "bold")


class _Figures(ProgressColumn):
    def render(self, task: Task) -> Text:
        done, seconds = int(task.completed), task.elapsed or 0.0
        count = f"{done}/{task.total:.0f}" if task.total else f"{done}"
        return Text(f"{count:>7} {rate_text(done, seconds):>8} {time_text(seconds):>11}")


class _Detail(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(str(task.fields["detail"]), "bright_black", overflow="ellipsis")
