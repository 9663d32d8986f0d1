"""The gate's arithmetic as a reviewer reads it: a row for each number, a drawing of the gain."""

from collections.abc import Iterator
from dataclasses import dataclass

from skillopt_ci.ledger.records import Decision, GateRecord, Measurement
from skillopt_ci.report.arithmetic import after_text, gate_end, policy_text, tasks_text
from skillopt_ci.report.figures import plural, score
from skillopt_ci.report.reservations import error_rows, reservations, with_pessimistic
from skillopt_ci.report.verdict import verdict

Rows = Iterator[tuple[str, str]]
#: The normal distribution has 95 % within so many standard deviations.
_NORMAL_95 = 1.959964
_HALF = 110


@dataclass(frozen=True, slots=True)
class Gain:
    """A difference with its 95 % interval, in units of a drawing whose zero is at ``_HALF``."""

    middle: float
    low: float
    high: float
    edge: str
    zero: int = _HALF
    width: int = 2 * _HALF


def gate_rows(decision: Decision | None) -> tuple[tuple[str, str], ...]:
    """All that the verdict stands on, label and value."""
    if decision is None:
        return (("verdict", "not yet judged"),)
    return tuple(_rows(decision))


def gain(decision: Decision | None) -> Gain | None:
    """The drawing of the difference; None where no uncertainty is recorded."""
    gate = None if decision is None else decision.gate
    if gate is None or gate.standard_error is None or not gate.compared:
        return None
    spread = _NORMAL_95 * gate.standard_error
    low, high = gate.difference - spread, gate.difference + spread
    edge = max(abs(low), abs(high), 0.05)
    scale = (_HALF - 6) / edge
    return Gain(
        middle=round(_HALF + gate.difference * scale, 1),
        low=round(_HALF + low * scale, 1),
        high=round(_HALF + high * scale, 1),
        edge=f"{edge:.2f}",
    )


def _rows(decision: Decision) -> Rows:
    yield "verdict", f"{verdict(decision.action, decision.score_after)}: {decision.reason}"
    measured = decision.measurement
    if measured is not None:
        yield from _measured(decision, measured)
    if decision.gate is not None:
        yield from _arithmetic(decision.gate)
    if decision.beats_best:
        yield "best", "the candidate is better than the best skill so far"
    if (alone := decision.notes) is not None:
        yield "reminders alone", f"{verdict(alone.action, alone.score_after)}: {alone.reason}"
        if alone.gate is not None:
            yield from ((f"reminders, {name}", text) for name, text in _arithmetic(alone.gate))


def _measured(decision: Decision, measured: Measurement) -> Rows:
    known = decision.reused_from
    reused = "" if known is None else f", as measured in step {known}: the text was the same"
    yield "current skill", score(decision.score_before)
    yield (
        "candidate",
        f"{after_text(decision)} ({with_pessimistic(decision.metric, measured)}){reused}",
    )
    yield "tasks", f"{tasks_text(decision)} compared"
    if measured.errors:
        yield "not measured", ", ".join(measured.errors)
    yield from ((f"{count} × not measured", why) for why, count in error_rows(measured))
    yield from (("beware", sentence) for sentence in reservations(measured))


def _arithmetic(gate: GateRecord) -> Rows:
    yield "policy", policy_text(gate)
    error = "" if gate.standard_error is None else f" ± {gate.standard_error:.3f} (standard error)"
    over = f"over {gate.compared} of {plural(gate.planned, 'task')}"
    yield "difference", f"{gate.difference:+.3f}{error} {over}"
    if gate.p_value is not None and gate.alpha is not None:
        beyond = f", to be better by more than {gate.margin:g}" if gate.margin else ""
        yield "by chance", f"p = {gate.p_value:.3f}; {gate.alpha:.3g} or less is sure{beyond}"
    yield "attempts", _attempts(gate)
    if gate.baseline_attempts:
        yield "afterwards", f"{plural(gate.baseline_attempts, 'attempt')} under the merged skill"
    for kind, loss in gate.losses.items():
        yield "lost too much", f"{kind}: -{loss:.3f}"


def _attempts(gate: GateRecord) -> str:
    if not gate.candidate_attempts:
        return "none needed"
    parts = [f"{gate.candidate_attempts:,} under the candidate"]
    if gate.current_attempts:
        parts.append(f"{gate.current_attempts:,} fresh ones under the current skill")
    if gate.rounds > 1:
        parts.append(f"in {plural(gate.rounds, 'round')}")
    if gate.saved:
        parts.append(f"{gate.saved:,} saved, since {gate_end(gate)}")
    return ", ".join(parts)
