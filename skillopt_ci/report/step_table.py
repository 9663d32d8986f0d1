"""A step at a glance: label and value, in the order in which a reader asks."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import Decision, ProposalRecord, State, StepRecord
from skillopt_ci.report.commit import applied_edits, gist
from skillopt_ci.report.figures import plural, score, score_text, usage_text
from skillopt_ci.report.verdict import verdict


def step_rows(
    record: StepRecord, decision: Decision, state: State, seconds: float
) -> tuple[tuple[str, str], ...]:
    """What a step did, as rows of a table; a row without a label goes on with the one above."""
    proposal = record.proposal
    rollout = proposal.rollout
    return (
        ("verdict", verdict(decision.action, decision.score_after)),
        ("because", decision.reason),
        ("training tasks", score_text(rollout.hard, rollout.n) + _errors(rollout.errors)),
        *_edit_rows(proposal),
        *_selection_rows(decision),
        ("best so far", _best(state)),
        ("used", f"{usage_text(record.usage.usage())}, {seconds:.1f} s"),
    )


def _edit_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    applied = applied_edits(proposal)
    merged = plural(proposal.n_edits_merged, "proposal")
    yield "edits", f"{len(applied)} of {merged}" if proposal.n_edits_merged else "none proposed"
    for edit in applied:
        yield "", gist((edit,))


def _selection_rows(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    if measured is None:
        yield "selection", "not measured"
        return
    after = score_text(measured.score, measured.n)
    reused = "" if decision.reused_from is None else f", measured in step {decision.reused_from}"
    yield (
        "selection",
        f"{score(decision.score_before)} → {after}{_errors(len(measured.errors))}{reused}",
    )
    yield "flips", f"{len(decision.fixed)} fixed, {len(decision.broken)} broken"


def _best(state: State) -> str:
    return f"{score(state.best.measurement.score)} ({state.best.origin})"


def _errors(count: int) -> str:
    return f", {plural(count, 'error')}" if count else ""
