"""From the outcomes of a system to its row in the table."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, fields

from bench.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Summary:
    """A system over all seeds.

    ``margin`` is twice the standard error of the mean true score. ``false_accepts`` is the share
    of accepted candidates that were not truly better, ``false_rejects`` the share of rejected
    ones that were; ``ungated`` is how many changes per run no gate saw, ``ungated_worse`` the share
    of them that were not truly better. ``calls`` are all but test calls.

    Three figures are held against the rival, the better of the other systems: ``gain`` is how much
    higher the mean true score is, ``calls_ratio`` how many times its calls were taken, ``share``
    the median of the calls that it took after which its mean score was first reached (infinite
    where more than half of the runs never reach it).
    """

    system: str
    runs: int
    start: float
    true: float
    margin: float
    sd: float
    lowest: float
    highest: float
    accepted: float
    false_accepts: float
    false_rejects: float
    ungated: float
    ungated_worse: float
    train: float
    selection: float
    optimizer: float
    calls: float
    gain: float
    calls_ratio: float
    share: float
    seconds: float


def summary(group: Sequence[Outcome], rival: tuple[float, float] | None) -> Summary:
    """Sum a system's outcomes up; ``rival`` is another's mean true score and calls."""
    scores = [one.true for one in group]
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return Summary(
        system=group[0].system,
        runs=len(group),
        start=statistics.mean(one.start for one in group),
        true=statistics.mean(scores),
        margin=2 * spread / math.sqrt(len(scores)),
        sd=spread,
        lowest=min(scores),
        highest=max(scores),
        accepted=statistics.mean(one.accepted for one in group),
        false_accepts=_share([one.worse_accepted for one in group], [o.accepted for o in group]),
        false_rejects=_share([one.better_rejected for one in group], [o.rejected for o in group]),
        ungated=statistics.mean(one.ungated for one in group),
        ungated_worse=_share([o.worse_ungated for o in group], [o.ungated for o in group]),
        train=statistics.mean(one.calls.get("target/train", 0) for one in group),
        selection=statistics.mean(one.calls.get("target/selection", 0) for one in group),
        optimizer=statistics.mean(one.paid - one.target_calls for one in group),
        calls=statistics.mean(one.paid for one in group),
        gain=statistics.mean(scores) - rival[0] if rival else math.nan,
        calls_ratio=statistics.mean(one.paid for one in group) / rival[1] if rival else math.nan,
        share=_reached(group, rival),
        seconds=statistics.mean(one.seconds for one in group),
    )


def _share(some: Sequence[int], all_: Sequence[int]) -> float:
    return sum(some) / sum(all_) if sum(all_) else 0.0


def _reached(group: Sequence[Outcome], rival: tuple[float, float] | None) -> float:
    if rival is None or not group[0].curve:
        return math.nan
    score, calls = rival
    return statistics.median(first_reach(one.curve, score) / calls for one in group)


def first_reach(curve: Sequence[tuple[float, float]], score: float) -> float:
    """The calls, or seconds, after which ``curve`` first has at least ``score``; else infinite."""
    return next((float(spent) for spent, true in curve if true >= score), math.inf)


def table(rows: Sequence[Summary]) -> str:
    """The rows as aligned plain text."""
    names = [field.name for field in fields(Summary)]
    return aligned(names, [[getattr(row, name) for name in names] for row in rows])


def aligned(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of plain text, its columns flush right."""
    cells = [list(heads), *(list(map(_cell, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    )


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    if math.isnan(value):
        return "-"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}"
