"""Where training stands."""

from collections.abc import Sequence

from skillopt_ci.ledger.records import HistoryEntry, State
from skillopt_ci.report.figures import score_text, usage_text


def status_rows(
    state: State, history: Sequence[HistoryEntry], commit: str
) -> tuple[tuple[str, str], ...]:
    """The run at a glance."""
    first, current, best = _first(history), state.current, state.best
    counts = tally(history)
    return (
        ("skill", state.skill),
        ("branch at", commit[:10]),
        ("last step", f"{state.step} (epoch {state.epoch})"),
        (
            "steps",
            (
                f"{counts['merged']} merged, {counts['reverted']} reverted, "
                f"{counts['empty']} without a candidate"
            ),
        ),
        ("started at", "–" if first is None else score_text(first.score_after or 0.0, first.tasks)),
        (
            "current",
            (
                f"{score_text(current.measurement.score, current.measurement.n)}, "
                f"from {current.origin}"
            ),
        ),
        ("best", f"{score_text(best.measurement.score, best.measurement.n)}, from {best.origin}"),
        ("used", usage_text(state.usage.usage())),
    )


def status_json(state: State, history: Sequence[HistoryEntry], commit: str) -> dict[str, object]:
    """The same as one object."""
    first, usage = _first(history), state.usage.usage()
    return {
        "run": state.run,
        "skill": state.skill,
        "commit": commit,
        "step": state.step,
        "epoch": state.epoch,
        "score_initial": None if first is None else first.score_after,
        "score_current": state.current.measurement.score,
        "score_best": state.best.measurement.score,
        "best_step": state.best.step,
        "tasks": state.current.measurement.n,
        **tally(history),
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "simulated": state.simulated,
    }


def tally(history: Sequence[HistoryEntry]) -> dict[str, int]:
    """How many steps were merged, reverted, or had no candidate."""
    steps = [entry for entry in history if entry.kind == "step"]
    merged = sum(entry.action.startswith("accept") for entry in steps)
    empty = sum(entry.score_after is None for entry in steps)
    return {"merged": merged, "reverted": len(steps) - merged - empty, "empty": empty}


def _first(history: Sequence[HistoryEntry]) -> HistoryEntry | None:
    return next((entry for entry in history if entry.kind == "start"), None)
