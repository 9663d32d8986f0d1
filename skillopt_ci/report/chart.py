"""The training curve, as a diagram that GitHub draws from text."""

from collections.abc import Sequence

from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.report.run_view import RunView

_MOST_POINTS = 40
_MEASURED = ("start", "measure", "step", "notes", "slow_update")
_LEGEND = (
    "<sub>Line: the skill as it stands. Bars: each step's candidate, if it had one; those "
    "below the line were reverted.</sub>"
)
_COLOURS = '%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#b6c2cf, #1f883d"}}}}%%'


def chart(run: RunView) -> str:
    """The current skill's score as a line, candidates as bars; nothing before the first step."""
    events = [entry for entry in run.scale if entry.kind in _MEASURED][-_MOST_POINTS:]
    if len(events) < 2:  # noqa: PLR2004 - a line takes two points
        return ""
    return "\n".join(
        (
            "```mermaid",
            _COLOURS,
            "xychart-beta",
            f'  title "Score on {run.state.current.measurement.n} selection tasks"',
            f"  x-axis [{', '.join(_labels(events))}]",
            '  y-axis "score" 0 --> 1',
            f"  bar [{', '.join(_number(_candidate(entry)) for entry in events)}]",
            f"  line [{', '.join(map(_number, _current(events)))}]",
            "```",
            "",
            _LEGEND,
        )
    )


def _labels(events: Sequence[HistoryEntry]) -> list[str]:
    names = {"step": "{}", "start": "start", "slow_update": "end of {}", "notes": "{} notes"}
    kinds = [names.get(entry.kind, "again") for entry in events]
    return [
        f'"{kind.format(entry.epoch if entry.kind == "slow_update" else entry.step)}"'
        for kind, entry in zip(kinds, events, strict=True)
    ]


def _candidate(entry: HistoryEntry) -> float:
    return entry.score_after or 0.0


def _current(events: Sequence[HistoryEntry]) -> list[float]:
    scores: list[float] = []
    for entry in events:
        stays = entry.kind in ("start", "measure") or "accept" in entry.action
        before = scores[-1] if scores else entry.score_before or 0.0
        scores.append(entry.score_after or 0.0 if stays else before)
    return scores


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
