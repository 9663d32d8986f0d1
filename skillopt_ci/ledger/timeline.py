"""The history told forwards: the current and the best skill after each event."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from skillopt_ci.ledger.records import HistoryEntry


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stood after ``entry``; scores are the gate's."""

    entry: HistoryEntry
    current_score: float | None
    current_origin: str
    best_score: float | None
    best_step: int
    best_origin: str

    @property
    def skill_sha256(self) -> str:
        """Hash of the current skill."""
        return self.entry.skill_sha256


def timeline(history: Sequence[HistoryEntry]) -> Iterator[Moment]:
    """Yield one moment per event, oldest first."""
    before: Moment | None = None
    for entry in history:
        before = _first(entry) if before is None else _next(before, entry)
        yield before


def _first(entry: HistoryEntry) -> Moment:
    return Moment(entry, entry.score_after, "initial", entry.best_score, entry.step, "initial")


def _next(before: Moment, entry: HistoryEntry) -> Moment:
    now = replace(before, entry=entry)
    if entry.kind == "measure":
        by_hand = entry.skill_sha256 != before.skill_sha256
        origin = "edited_by_hand" if by_hand else before.current_origin
        now = replace(now, current_score=entry.score_after, current_origin=origin)
    elif entry.stays:
        now = replace(now, current_score=entry.score_after, current_origin=_origin(entry))
    return _with_best(before, now)


def _with_best(before: Moment, now: Moment) -> Moment:
    score = now.entry.best_score
    beaten = now.entry.action in ("accept_new_best", "promote") or (
        score is not None
        and before.best_score is not None
        and score > before.best_score
        and score == now.current_score
    )
    if not beaten:
        return replace(now, best_score=score)
    return replace(now, best_score=score, best_step=now.entry.step, best_origin=now.current_origin)


def _origin(entry: HistoryEntry) -> str:
    return "slow_update_momentum" if entry.kind == "slow_update" else f"step_{entry.step:04}"
