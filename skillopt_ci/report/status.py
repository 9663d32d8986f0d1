"""Where training stands."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from skillopt_ci.ledger.records import HistoryEntry, Snapshot, State
from skillopt_ci.report.accounts import account_json, account_rows
from skillopt_ci.report.figures import score_text, usage_text
from skillopt_ci.report.reservations import with_pessimistic


def status_rows(
    state: State,
    history: Sequence[HistoryEntry],
    commit: str,
    coming: Iterable[tuple[str, str]] = (),
) -> tuple[tuple[str, str], ...]:
    """The run at a glance; ``coming`` are rows about what is under way and what comes next."""
    first = _first(history)
    return (
        ("skill", state.skill),
        ("branch at", commit[:10]),
        ("last step", f"{state.step} (epoch {state.epoch})" if state.step else "none yet"),
        ("steps", _counts(tally(history))),
        *_epoch_ends(state),
        *coming,
        ("started at", "–" if first is None else score_text(first.score_after or 0.0, first.tasks)),
        ("current", _snapshot(state.current)),
        ("best", _snapshot(state.best)),
        ("used", usage_text(state.usage.usage())),
        *account_rows(state.accounts, state.usage),
    )


def status_json(
    state: State,
    history: Sequence[HistoryEntry],
    commit: str,
    coming: Mapping[str, object] = MappingProxyType({}),
) -> dict[str, object]:
    """The same as one object, with ``coming`` at its end."""
    first, usage = _first(history), state.usage.usage()
    return {
        "run": state.run,
        "skill": state.skill,
        "commit": commit,
        "step": state.step,
        "epoch": state.epoch,
        "epoch_end": state.boundary,
        "score_initial": None if first is None else first.score_after,
        "score_current": state.current.measurement.score,
        "score_best": state.best.measurement.score,
        "best_step": state.best.step,
        "tasks": state.current.measurement.n,
        **tally(history),
        "calls": usage.calls,
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "accounts": account_json(state.accounts),
        "simulated": state.simulated,
        **coming,
    }


def tally(history: Sequence[HistoryEntry]) -> dict[str, int]:
    """How many steps were merged, reverted, or had no candidate."""
    steps = [entry for entry in history if entry.kind == "step"]
    merged = sum("accept" in entry.action for entry in steps)
    empty = sum(entry.score_after is None for entry in steps)
    return {"merged": merged, "reverted": len(steps) - merged - empty, "empty": empty}


def _epoch_ends(state: State) -> tuple[tuple[str, str], ...]:
    """Nothing for a run without slow update and meta skill."""
    if not state.boundary:
        return ()
    return (("last epoch end", f"epoch {state.boundary}"),)


def _counts(counts: Mapping[str, int]) -> str:
    empty = f", {counts['empty']} without a candidate" if counts["empty"] else ""
    return f"{counts['merged']} merged, {counts['reverted']} reverted{empty}"


def _snapshot(snapshot: Snapshot) -> str:
    measured = snapshot.measurement
    text = with_pessimistic(score_text(measured.score, measured.n), measured)
    return f"{text} ({snapshot.origin})"


def _first(history: Sequence[HistoryEntry]) -> HistoryEntry | None:
    return next((entry for entry in history if entry.kind == "start"), None)
