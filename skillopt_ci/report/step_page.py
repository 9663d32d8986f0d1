"""All of one step, for `show`."""

from collections.abc import Iterator, Sequence

from skillopt_ci.ledger.records import Decision, EditRecord, ProposalRecord, StepRecord
from skillopt_ci.report.accounts import stage_rows
from skillopt_ci.report.arithmetic import after_text, arithmetic
from skillopt_ci.report.attempted import training_score
from skillopt_ci.report.commit import edit_text
from skillopt_ci.report.figures import names_text, plural, score, usage_text
from skillopt_ci.report.note_outcome import follows
from skillopt_ci.report.reminders import reminders
from skillopt_ci.report.reservations import reservations
from skillopt_ci.report.rewriting import suggestion_rows
from skillopt_ci.report.verdict import verdict

#: How the edits were chosen, where there were more than the budget allows.
_CHOICE = {"ranked": ", ranked by the optimizer", "truncated": ", the first ones taken"}


def step_rows_in_full(record: StepRecord) -> tuple[tuple[str, str], ...]:
    """The facts of a step, label and value."""
    proposal, decision = record.proposal, record.decision
    rollout = proposal.rollout
    return (
        ("training tasks", training_score(proposal)),
        ("failed", names_text([task.id for task in rollout.tasks if task.failed])),
        *_unmeasured([task.id for task in rollout.tasks if not task.status.measured]),
        *(("pattern", f"{one.description} (×{one.count})") for one in proposal.patterns),
        ("proposals", _proposals(proposal)),
        *_rate_rows(proposal),
        ("reasoning", proposal.reasoning or "–"),
        *_edit_rows(proposal),
        *(_decision_rows(decision) if decision else (("verdict", "in flight"),)),
        ("used", usage_text(record.usage.usage())),
        *stage_rows(record.accounts, record.usage, proposal.usage),
    )


def _edit_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    for number, edit in enumerate(proposal.edits, start=1):
        yield f"edit {number}", f"{_fate(edit)}: {edit_text(edit)}"
        if wishes := follows(edit, proposal):
            yield "", wishes
    yield from suggestion_rows(proposal)
    yield from (("change", words) for words in proposal.change_summary)
    yield from (("refused", f"a proposal, because {reason}") for reason in proposal.screened)
    if proposal.refused:
        yield "refused", f"the new document, because {proposal.refused}"
    yield from (("note", words) for words in reminders(proposal))
    for refused in proposal.notes.refused if proposal.notes else ():
        yield "note", f"refused because {refused.reason}: {refused.note}"


def _fate(edit: EditRecord) -> str:
    if edit.reason:
        return f"refused because {edit.reason}"
    return "applied" if edit.applied else edit.status.replace("_", " ")


def _proposals(proposal: ProposalRecord) -> str:
    return (
        f"{proposal.n_failure_patches} from failures, {proposal.n_success_patches} from "
        f"successes; {plural(proposal.n_edits_merged, 'proposal')} after merging, "
        f"{_limit(proposal)}{_CHOICE.get(proposal.selection, '')}"
    )


def _limit(proposal: ProposalRecord) -> str:
    if proposal.edit_budget is None:
        return "no limit"
    chosen = ", chosen by the optimizer" if proposal.learning_rate else ""
    return f"at most {proposal.edit_budget} to apply{chosen}"


def _rate_rows(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    rate = proposal.learning_rate
    if rate is not None:
        sure = f", {rate.confidence} confidence" if rate.confidence else ""
        yield "step size", f"{rate.learning_rate} of {rate.available}{sure}: {rate.reasoning}"
        yield from (("risk", risk) for risk in rate.risk_notes)


def _decision_rows(decision: Decision) -> Iterator[tuple[str, str]]:
    measured = decision.measurement
    yield "verdict", verdict(decision.action, decision.score_after)
    yield "because", decision.reason
    yield "before", score(decision.score_before)
    yield "after", after_text(decision)
    if told := arithmetic(decision):
        yield "arithmetic", told
    if decision.reused_from is not None:
        yield "measured in", f"step {decision.reused_from}: the text was the same"
    if measured is not None:
        yield "fixed", names_text(decision.fixed)
        yield "broken", names_text(decision.broken)
        yield from _unmeasured(measured.errors)
        yield from (("beware", sentence) for sentence in reservations(measured))
    if (alone := decision.notes) is not None:
        yield "notes alone", f"{verdict(alone.action, alone.score_after)}: {alone.reason}"


def _unmeasured(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    if names:
        yield "not measured", names_text(names)
