"""Replay the history: the current and the best skill after each event, and which scores compare."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from skillopt_ci.ledger.records import HistoryEntry

#: Why a skill is measured again, although it may be the same.
MEASURED_ANEW = "the selection tasks or the way of measuring changed"


def new_scale(entry: HistoryEntry, old: str) -> bool:
    """Whether scores from before ``entry``, when the skill's hash was ``old``, do not compare.

    If an unchanged skill was measured again, then tasks, scorers or the model had changed.
    """
    return entry.kind == "measure" and (entry.skill_sha256 == old or MEASURED_ANEW in entry.reason)


def comparable_from(history: Sequence[HistoryEntry]) -> int:
    """The index of the first event whose score is comparable with the latest one."""
    pairs = enumerate(pairwise(history), start=1)
    return max((at for at, (one, entry) in pairs if new_scale(entry, one.skill_sha256)), default=0)


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after ``entry``; scores are the gate's, and origins have SkillOpt's names."""

    entry: HistoryEntry
    current_score: float | None
    current_origin: str
    best_score: float | None
    best_step: int
    best_origin: str


def timeline(history: Sequence[HistoryEntry]) -> Iterator[Moment]:
    if not history:
        return
    start, *later = history
    score, step, origin = start.score_after, start.step, "initial_skill"
    now = Moment(start, score, origin, start.best_score, step, origin)
    yield now
    for entry in later:
        best = entry.best_score
        if entry.kind == "measure":
            score = entry.score_after
            if entry.skill_sha256 != now.entry.skill_sha256:
                step, origin = entry.step, "edited_by_hand"
        elif entry.stays:
            score, step, origin = entry.score_after, entry.step, f"step_{entry.step:04}"
            if entry.kind == "slow_update":
                room = "placeholder_" if entry.epoch == 1 else ""
                origin = f"slow_update_{room}epoch_{entry.epoch:02}"
        higher = best is not None and now.best_score is not None and best > now.best_score
        fallen = now.entry.kind == "revert" and best == score
        new = entry.action in ("accept_new_best", "promote") or fallen or (higher and best == score)
        found = (step, origin) if new else (now.best_step, now.best_origin)
        now = Moment(entry, score, origin, best, *found)
        yield now
