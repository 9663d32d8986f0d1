"""Tasks by measurements: which task was solved under which candidate, as few SVG paths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Literal

from skillopt_ci.ledger.records import Measurement

Outcome = Literal["solved", "partial", "failed", "unknown"]
_OUTCOMES: tuple[Outcome, ...] = ("solved", "partial", "failed", "unknown")
_LETTERS: Mapping[Outcome, str] = {"solved": "s", "partial": "p", "failed": "f", "unknown": "u"}
_ROW = 14
#: Room above the cells, for the fates and the labels.
_HEAD = 22
#: A label takes up so much room.
_LABEL = 26
_SOLVED = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Column:
    """A measured skill. ``fate`` is ``merged``, ``reverted`` or ``measured``.

    ``label`` is a name of few letters.
    """

    title: str
    anchor: str
    fate: str
    measurement: Measurement
    label: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A task: how often it was solved over all columns, and its outcomes in a letter each."""

    task: str
    solved: float
    letters: str


@dataclass(frozen=True, slots=True)
class OutcomeMap:
    """The drawing: a path for each outcome, cells of ``cell`` by ``row`` units."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    paths: Mapping[Outcome, str]
    cell: int
    row: int = _ROW
    head: int = _HEAD

    @property
    def labels(self) -> tuple[tuple[float, str], ...]:
        """Short names of columns and where they stand, as far as there is room."""
        every = -(-_LABEL // self.cell)
        return tuple(
            (self.cell * (number + 0.5), column.label)
            for number, column in enumerate(self.columns)
            if number % every == 0
        )

    @property
    def width(self) -> int:
        """Width of the drawing."""
        return self.cell * len(self.columns)

    @property
    def height(self) -> int:
        """Height of the drawing."""
        return self.row * len(self.rows)


def outcome_map(columns: Sequence[Column]) -> OutcomeMap:
    """Draw ``columns`` side by side, the tasks that were solved least often at the top."""
    names = dict.fromkeys(task for column in columns for task in column.measurement.tasks)
    rows = sorted((_row(name, columns) for name in names), key=lambda row: (row.solved, row.task))
    cell = max(4, min(18, 860 // max(len(columns), 1)))
    paths = {kind: _path(kind, rows, cell) for kind in _OUTCOMES}
    return OutcomeMap(tuple(rows), tuple(columns), paths, cell)


def _row(task: str, columns: Sequence[Column]) -> Row:
    outcomes = [_outcome(column.measurement, task) for column in columns]
    known = [float(one == "solved") for one in outcomes if one != "unknown"]
    return Row(task, fmean(known) if known else 0.0, "".join(_LETTERS[one] for one in outcomes))


def _outcome(measurement: Measurement, task: str) -> Outcome:
    scores = measurement.tasks.get(task)
    if scores is None:
        return "unknown"
    hard, soft = scores
    if hard >= _SOLVED:
        return "solved"
    return "partial" if hard > 0 or soft > 0 else "failed"


def _path(kind: Outcome, rows: Sequence[Row], cell: int) -> str:
    """Neighbours of one outcome are one rectangle."""
    parts = []
    for number, row in enumerate(rows):
        column = 0
        for letter, run in groupby(row.letters):
            length = len(list(run))
            if letter == _LETTERS[kind]:
                width = length * cell
                parts.append(f"M{column * cell} {number * _ROW}h{width}v{_ROW - 1}h-{width}z")
            column += length
    return "".join(parts)
