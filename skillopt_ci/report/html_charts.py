"""The score curve, in percentages so that it scales to any screen, and the map of solved tasks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.ledger.summary import Moment, new_scale, timeline
from skillopt_ci.report.words import event_name
from skillopt_ci.stats import wilson
from skillopt_ci.text import plural, score

_DRAWN = ("start", "measure", "step", "notes", "slow_update")
_MOST_LABELS = 20
#: With more events than this, marks are smaller; with more epochs, their lines become ticks.
_CROWD, _MANY_EPOCHS = 80, 24


class Mark(NamedTuple):
    x: float
    y: float
    kind: Literal["merged", "reverted", "none", "measured"]
    title: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Curve:
    """``labels`` are (x, text), ``epochs`` (x, number).

    ``stretches`` have comparable scores: points of the line and of the band.
    """

    stretches: tuple[tuple[str, str], ...]
    marks: tuple[Mark, ...]
    labels: tuple[tuple[float, str], ...]
    epochs: tuple[tuple[float, int], ...]
    crowded: bool = False
    epoch_bottom: int = 100


def curve(
    history: Sequence[HistoryEntry], verdicts: Mapping[str, str] = MappingProxyType({})
) -> Curve:
    """Draw the current skill's score with its 95 % interval, and every candidate.

    ``verdicts``, by anchor, are those that the evidence refines (within noise or not).
    """
    moments = [one for one in timeline(history) if one.entry.kind in _DRAWN]
    placed = [
        (moment, round(100 * (index + 0.5) / len(moments), 2))
        for index, moment in enumerate(moments)
    ]
    ends = [(x, one.entry.epoch) for one, x in placed if one.entry.kind == "slow_update"]
    steps = [(x, str(one.entry.step)) for one, x in placed if one.entry.kind == "step"]
    return Curve(
        stretches=tuple(_stretches(placed)),
        marks=tuple(_mark(moment, x, verdicts) for moment, x in placed),
        labels=tuple(steps[:: -(-len(steps) // _MOST_LABELS) or 1]),
        epochs=tuple(ends),
        crowded=len(moments) > _CROWD,
        epoch_bottom=100 if len(ends) <= _MANY_EPOCHS else 4,
    )


def anchor(entry: HistoryEntry) -> str:
    if entry.kind == "slow_update":
        return f"epoch-{entry.epoch}"
    return f"step-{entry.step}" if entry.kind in ("step", "notes") else ""


def _y(value: float) -> float:
    return round(100 * (1 - min(max(value, 0.0), 1.0)), 2)


def _stretches(placed: Sequence[tuple[Moment, float]]) -> Iterator[tuple[str, str]]:
    """Break the curve where scores stop being comparable."""
    points: list[tuple[float, float, int]] = []
    known = ""
    for moment, x in placed:
        entry = moment.entry
        if points and new_scale(entry, known):
            yield _stretch(points)
            points = []
        if moment.current_score is not None:
            # A reverted candidate's task count does not apply to the current score.
            tasks = points[-1][2] if points else 0
            if entry.tasks and (entry.kind in ("start", "measure") or entry.stays or not tasks):
                tasks = entry.tasks
            points.append((x, moment.current_score, tasks))
        known = entry.skill_sha256
    if points:
        yield _stretch(points)


def _stretch(points: Sequence[tuple[float, float, int]]) -> tuple[str, str]:
    # A step function: a score holds until the next verdict.
    corners = [points[0]]
    for (_, value, tasks), after in pairwise(points):
        corners += [(after[0], value, tasks), after]
    spans = [(x, wilson(min(max(value, 0.0), 1.0), tasks)) for x, value, tasks in corners]
    upper = [(x, _y(span.high)) for x, span in spans]
    lower = [(x, _y(span.low)) for x, span in reversed(spans)]
    return _points((x, _y(value)) for x, value, _ in corners), _points((*upper, *lower))


def _points(pairs: Iterator[tuple[float, float]] | Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in pairs)


def _mark(moment: Moment, x: float, verdicts: Mapping[str, str]) -> Mark:
    entry = moment.entry
    plain = entry.kind in ("start", "measure")
    known = entry.verdict if entry.kind == "notes" else verdicts.get(anchor(entry), entry.verdict)
    title = f"{event_name(entry)}: {'the skill as it stands' if plain else known}"
    if entry.score_after is None:
        return Mark(x, _y(0), "none", title, anchor(entry))
    fate: Literal["merged", "reverted"] = "merged" if entry.stays else "reverted"
    of = f"{entry.tasks:,} of " if entry.planned else ""
    on = f" on {of}{plural(entry.planned or entry.tasks, 'task')}" if entry.tasks else ""
    return Mark(
        x,
        _y(entry.score_after),
        "measured" if plain else fate,
        f"{title}, {score(entry.score_after, estimated=entry.planned > 0)}{on}",
        anchor(entry),
    )


# Tasks by measurements: which task was solved under which candidate, in a few SVG paths.

TaskGrade = Literal["solved", "partial", "failed", "unknown"]
_ROW = 14
#: Height above the cells, for fates and labels, and the width of a label.
_HEAD, _LABEL = 22, 26
_SOLVED = 1 - 1e-9


class Column(NamedTuple):
    """A measured skill, ``merged`` or ``reverted`` if it was a candidate; ``label`` is short."""

    title: str
    anchor: str
    fate: str
    measurement: Measurement
    label: str = ""


class Row(NamedTuple):
    """A task: how often it was solved over all columns, and its outcomes' first letters."""

    task: str
    solved: float
    letters: str


@dataclass(frozen=True, slots=True)
class OutcomeMap:
    """One path per outcome; cells measure ``cell`` by ``row`` units."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    paths: Mapping[TaskGrade, str]
    cell: int
    width: int
    height: int
    row: int = _ROW
    head: int = _HEAD

    @property
    def every(self) -> int:
        """Every how many columns there is room for a label."""
        return -(-_LABEL // self.cell)


def outcome_map(columns: Sequence[Column]) -> OutcomeMap:
    """Draw ``columns`` side by side, with the tasks solved least often at the top."""
    names = dict.fromkeys(task for column in columns for task in column.measurement.tasks)
    rows = []
    for name in names:
        scores = (column.measurement.tasks.get(name) for column in columns)
        outcomes = ["unknown" if one is None else grade_of(*one) for one in scores]
        known = [float(one == "solved") for one in outcomes if one != "unknown"]
        rows.append(Row(name, fmean(known) if known else 0.0, "".join(one[0] for one in outcomes)))
    rows.sort(key=lambda row: (row.solved, row.task))
    cell = max(4, min(18, 860 // max(len(columns), 1)))
    paths: dict[TaskGrade, str] = {}
    for kind in get_args(TaskGrade):
        # adjacent cells form one rectangle
        found = (
            (number * _ROW, part.start() * cell, len(part[0]) * cell)
            for number, row in enumerate(rows)
            for part in re.finditer(f"{kind[0]}+", row.letters)
        )
        paths[kind] = "".join(f"M{x} {y}h{width}v{_ROW - 1}h-{width}z" for y, x, width in found)
    width, height = cell * len(columns), _ROW * len(rows)
    return OutcomeMap(tuple(rows), tuple(columns), paths, cell, width, height)


def grade_of(hard: float, soft: float) -> TaskGrade:
    if hard >= _SOLVED:
        return "solved"
    return "partial" if hard > 0 or soft > 0 else "failed"
