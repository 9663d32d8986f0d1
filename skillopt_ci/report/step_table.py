"""A step at a glance: label and value, in the order in which a reader asks."""

from collections.abc import Iterator

from skillopt_ci.ledger.records import Decision, ProposalRecord, State, StepRecord
from skillopt_ci.report.arithmetic import after_text, arithmetic
from skillopt_ci.report.attempted import training_score
from skillopt_ci.report.commit import applied_edits, change_count, gist
from skillopt_ci.report.figures import plural, score, usage_text
from skillopt_ci.report.reminders import notes_gist, refusal_lines
from skillopt_ci.report.reservations import reservations
from skillopt_ci.report.rewriting import rewriting
from skillopt_ci.report.verdict import verdict


def step_rows(
    record: StepRecord, decision: Decision, state: State, seconds: float
) -> tuple[tuple[str, str], ...]:
    """What a step did, as rows of a table; a row without a label goes on with the one above."""
    proposal = record.proposal
    return (
        ("verdict", verdict(decision.action, decision.score_after)),
        ("because", decision.reason),
        ("training tasks", training_score(proposal) + _errors(proposal.rollout.errors)),
        *_edit_rows(proposal),
        *_selection_rows(decision),
        ("best so far", _best(state)),
        ("used", f"{usage_text(record.usage.usage())}, {seconds:.1f} s"),
    )


def _edit_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    merged = plural(proposal.n_edits_merged, "proposal")
    taken = f"{change_count(proposal)} of {merged}"
    yield "edits", taken if proposal.n_edits_merged else "none proposed"
    for edit in applied_edits(proposal):
        yield "", gist((edit,))
    if proposal.mode != "patch":
        yield from (("", words) for words in rewriting(proposal))
    yield from (("refused", words) for words in refusal_lines(proposal))
    if gist_of_notes := notes_gist(proposal):
        yield "notes", gist_of_notes


def _selection_rows(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    if measured is None:
        yield "selection", "not measured"
        return
    after = after_text(decision)
    reused = "" if decision.reused_from is None else f", measured in step {decision.reused_from}"
    yield (
        "selection",
        f"{score(decision.score_before)} → {after}{_errors(len(measured.errors))}{reused}",
    )
    if told := arithmetic(decision):
        yield "arithmetic", told
    yield from (("beware", sentence) for sentence in reservations(measured))
    yield "flips", f"{len(decision.fixed)} fixed, {len(decision.broken)} broken"
    if (alone := decision.notes) is not None:
        fate = "kept" if alone.stays else "dropped"
        yield "notes alone", f"{fate}, {score(alone.score_before)} → {score(alone.score_after)}"


def _best(state: State) -> str:
    return f"{score(state.best.measurement.score)} ({state.best.origin})"


def _errors(count: int) -> str:
    return f", {plural(count, 'error')}" if count else ""
