"""All of one step, for `show`."""

from collections.abc import Iterator, Sequence

from skillopt_ci.ledger.records import Decision, EditRecord, ProposalRecord, StepRecord
from skillopt_ci.report.commit import edit_text
from skillopt_ci.report.figures import plural, score, score_text, usage_text
from skillopt_ci.report.verdict import verdict

#: How the edits were chosen, where there were more than the budget allows.
_CHOICE = {"ranked": ", ranked by the optimizer", "truncated": ", the first ones taken"}


def step_rows_in_full(record: StepRecord) -> tuple[tuple[str, str], ...]:
    """The facts of a step, label and value."""
    proposal, decision = record.proposal, record.decision
    rollout = proposal.rollout
    return (
        ("training tasks", score_text(rollout.hard, rollout.n)),
        ("failed", _listed([task.id for task in rollout.tasks if task.failed])),
        *_unmeasured([task.id for task in rollout.tasks if not task.status.measured]),
        *(("pattern", f"{one.description} (×{one.count})") for one in proposal.patterns),
        ("proposals", _proposals(proposal)),
        ("reasoning", proposal.reasoning or "–"),
        *_edit_rows(proposal),
        *(_decision_rows(decision) if decision else (("verdict", "in flight"),)),
        ("used", usage_text(record.usage.usage())),
        *((f"  {stage}", usage_text(used.usage())) for stage, used in proposal.usage.items()),
    )


def _edit_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    for number, edit in enumerate(proposal.edits, start=1):
        yield f"edit {number}", f"{_fate(edit)}: {edit_text(edit)}"


def _fate(edit: EditRecord) -> str:
    return "applied" if edit.applied else edit.status.replace("_", " ")


def _proposals(proposal: ProposalRecord) -> str:
    return (
        f"{proposal.n_failure_patches} from failures, {proposal.n_success_patches} from "
        f"successes; {plural(proposal.n_edits_merged, 'edit')} after merging, "
        f"at most {proposal.edit_budget} to apply{_CHOICE.get(proposal.selection, '')}"
    )


def _decision_rows(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    yield "verdict", verdict(decision.action, decision.score_after)
    yield "because", decision.reason
    yield "before", score(decision.score_before)
    yield "after", "not measured" if measured is None else score_text(measured.score, measured.n)
    if decision.reused_from is not None:
        yield "measured in", f"step {decision.reused_from}: the text was the same"
    if measured is not None:
        yield "fixed", _listed(decision.fixed)
        yield "broken", _listed(decision.broken)
        yield from _unmeasured(measured.errors)


def _unmeasured(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if names:
        yield "not measured", _listed(names)


def _listed(names: Sequence[str], limit: int = 30) -> str:
    shown = ", ".join(names[:limit]) or "none"
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
