"""The training log as a table: one row per event."""

from skillopt_ci.ledger.records import HistoryEntry
from skillopt_ci.report.figures import score
from skillopt_ci.report.verdict import verdict

LOG_HEADINGS = ("step", "epoch", "before", "after", "best", "edits", "words", "verdict")


def log_row(entry: HistoryEntry) -> tuple[str, ...]:
    """The row of one event."""
    step = str(entry.step) if entry.kind == "step" else "–"
    return (
        step,
        str(entry.epoch),
        score(entry.score_before),
        score(entry.score_after, estimated=entry.planned > 0),
        score(entry.best_score),
        str(entry.edits) if entry.kind == "step" else "–",
        str(entry.words),
        _what(entry),
    )


def _what(entry: HistoryEntry) -> str:
    if entry.kind == "step":
        return verdict(entry.action, entry.score_after)
    if entry.kind == "notes":
        return f"notes of step {entry.step} kept"
    if entry.kind == "slow_update":
        return f"end of epoch: {_outcome(entry)}"
    return f"{entry.action.replace('_', ' ')}: {entry.reason}"


def _outcome(entry: HistoryEntry) -> str:
    if entry.score_after is None:
        return entry.reason
    # a placeholder, or guidance that is not gated: that no gate stood in its way says nothing
    return "merged" if entry.action == "force_accept" else verdict(entry.action, entry.score_after)
