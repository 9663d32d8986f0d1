"""A step at a glance: label and value, in the order in which a reader asks."""

from skillopt_ci.ledger.records import Decision, State, StepRecord
from skillopt_ci.report.commit import applied_edits, gist
from skillopt_ci.report.figures import plural, score, score_text, usage_text

_VERDICTS = {
    "accept_new_best": "merged, new best",
    "accept": "merged",
    "reject": "reverted",
    "skip_no_patches": "nothing proposed",
}


def verdict(action: str) -> str:
    """The gate's action in plain words."""
    return _VERDICTS.get(action, action)


def step_rows(
    record: StepRecord, decision: Decision, state: State, seconds: float
) -> tuple[tuple[str, str], ...]:
    """What a step did, as rows of a table."""
    proposal = record.proposal
    rollout = proposal.rollout
    edits = applied_edits(proposal)
    measured = decision.measurement
    return (
        ("verdict", f"{verdict(decision.action)} — {decision.reason}"),
        ("training tasks", score_text(rollout.hard, rollout.n) + _errors(rollout.errors)),
        ("edits", f"{len(edits)} of {plural(proposal.n_edits_merged, 'proposal')}: {gist(edits)}"),
        (
            "selection",
            "not measured"
            if measured is None
            else f"{score(decision.score_before)} → {score_text(measured.score, measured.n)}"
            + _errors(len(measured.errors)),
        ),
        ("flips", f"{len(decision.fixed)} fixed, {len(decision.broken)} broken"),
        ("best so far", f"{score(state.best.measurement.score)} (step {state.best.step})"),
        ("used", f"{usage_text(record.usage.usage())}, {seconds:.1f} s"),
    )


def _errors(count: int) -> str:
    return f", {plural(count, 'error')}" if count else ""
