"""All of one step, for `show`."""

from collections.abc import Iterator, Sequence

from skillopt_ci.ledger.records import Decision, ProposalRecord, StepRecord
from skillopt_ci.report.figures import plural, score, score_text, usage_text
from skillopt_ci.report.step_table import verdict


def step_rows_in_full(record: StepRecord) -> tuple[tuple[str, str], ...]:
    """The facts of a step, label and value."""
    proposal, decision = record.proposal, record.decision
    rollout = proposal.rollout
    failed = [task.id for task in rollout.tasks if task.failed]
    return (
        ("training tasks", score_text(rollout.hard, rollout.n)),
        ("failed", _listed(failed)),
        *(("pattern", f"{one.description} (×{one.count})") for one in proposal.patterns),
        (
            "proposals",
            (
                f"{proposal.n_failure_patches} from failures, {proposal.n_success_patches} from "
                f"successes; {plural(proposal.n_edits_merged, 'edit')} after merging, "
                f"budget {proposal.edit_budget} ({proposal.selection})"
            ),
        ),
        ("reasoning", proposal.reasoning or "–"),
        *(_decision_rows(decision) if decision else (("verdict", "in flight"),)),
        ("used", usage_text(record.usage.usage())),
        *((f"  {stage}", usage_text(used.usage())) for stage, used in proposal.usage.items()),
    )


def _decision_rows(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    yield "verdict", f"{verdict(decision.action)} — {decision.reason}"
    yield "before", score(decision.score_before)
    yield "after", "not measured" if measured is None else score_text(measured.score, measured.n)
    if measured is not None:
        yield "fixed", _listed(decision.fixed)
        yield "broken", _listed(decision.broken)
        if measured.errors:
            yield "not measured", _listed(measured.errors)


def edit_lines(proposal: ProposalRecord) -> Iterator[str]:
    """One line per edit with what became of it, then what they did to the document."""
    for number, edit in enumerate(proposal.edits, start=1):
        backed = f"{edit.source_type}, backed by {edit.support_count}"
        yield f"edit {number}: {edit.op}, {edit.status} ({backed})"
    yield ""
    yield from proposal.diff.splitlines()


def _listed(names: Sequence[str], limit: int = 30) -> str:
    shown = ", ".join(names[:limit]) or "none"
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
