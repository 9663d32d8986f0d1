"""The second half of a step: measure the candidate and let the gate decide."""

from skillopt_ci.config.config import Evaluation
from skillopt_ci.ledger.records import Action, Decision, Measurement, ProposalRecord
from skillopt_ci.progress import StageFinished
from skillopt_ci.report.text import verdict as in_words
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.skill.regions import reading, with_notes
from skillopt_ci.training.baseline import with_baseline
from skillopt_ci.training.consultation import refuse_overuse
from skillopt_ci.training.gate import Gate, admit_notes, decide
from skillopt_ci.training.meeting import meet
from skillopt_ci.training.memory import measured_before
from skillopt_ci.training.rule import rule
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Settled


async def judge(
    session: Session, standing: Settled, proposal: ProposalRecord, skill: str, bench: Bench
) -> Decision:
    """The verdict on the candidate ``skill``; measures it unless that was done before.

    Notes whose edits are rejected are judged by themselves.
    """
    if not proposal.changed:
        return _unmeasured(session, standing.state.current.measurement, proposal)
    notes, evaluation = proposal.notes, session.config.evaluation
    if notes is not None and notes.alone:
        return await _judge_notes(session, standing, skill, bench)
    decision = await judge_text(session, standing, skill, bench, evaluation)
    if decision.stays or notes is None or not notes.added:
        return decision
    alone = await _judge_notes(session, standing, with_notes(standing.skill, notes.appendix), bench)
    return decision.model_copy(update={"notes": alone})


async def _judge_notes(session: Session, standing: Settled, skill: str, bench: Bench) -> Decision:
    evaluation = session.config.evaluation
    if session.config.optimizer.skill_aware_appendix_gate == "forced":
        evaluation = evaluation.model_copy(update={"use_gate": False})
    return await judge_text(session, standing, skill, bench, evaluation, admit_notes)


async def judge_text(
    session: Session,
    standing: Settled,
    skill: str,
    bench: Bench,
    evaluation: Evaluation,
    gate: Gate = decide,
) -> Decision:
    """Measure the text ``skill`` as far as the verdict needs it, and judge it by ``gate``."""
    known = known_measurement(session, standing, skill)
    if known is None:
        refuse_overuse(session, standing)
    before = known and known[1]
    meeting = await meet(session, standing, skill, before, bench, evaluation, gate)
    types = {task.id: task.task_type for task in session.selection}
    verdict, record = rule(meeting, standing.state, evaluation, gate, types)
    current = meeting.incumbent or standing.state.current.measurement
    flips = paired(_hard(current), _hard(meeting.candidate))
    session.observer(StageFinished("gate", in_words(verdict.action, verdict.candidate)))
    decision = Decision(
        action=verdict.action,
        reason=verdict.reason,
        metric=evaluation.gate_metric,
        score_before=verdict.current,
        score_after=verdict.candidate,
        measurement=meeting.candidate,
        compared=flips.n,
        fixed=flips.fixed,
        broken=flips.broken,
        measured_under=session.measured_under,
        reused_from=known[0] if known and not record.candidate_attempts else None,
        beats_best=verdict.beats_best,
        gate=record,
        incumbent=meeting.incumbent,
    )
    return await with_baseline(session, decision, skill, bench, evaluation)


def known_measurement(
    session: Session, standing: Settled, skill: str
) -> tuple[int, Measurement] | None:
    """The step that measured ``skill``, or a text that reads the same, and its finding.

    The finding may be partial.
    """
    return _read_the_same(standing, skill) or measured_before(session, standing, skill)


def _read_the_same(standing: Settled, skill: str) -> tuple[int, Measurement] | None:
    """The current skill's measurement, where the target reads the same: an empty region is new."""
    current = standing.state.current
    if reading(skill) != reading(standing.skill):
        return None
    return current.step, current.measurement


def _unmeasured(session: Session, before: Measurement, proposal: ProposalRecord) -> Decision:
    action, reason = _without_candidate(proposal)
    return Decision(
        action=action,
        reason=reason,
        metric=session.config.evaluation.gate_metric,
        score_before=before.score,
        score_after=None,
    )


def _without_candidate(proposal: ProposalRecord) -> tuple[Action, str]:
    """What it is called that a proposal left the skill as it was, and why it did."""
    if not proposal.n_failure_patches + proposal.n_success_patches:
        refused = "the guard refused all that was proposed"
        return "skip_no_patches", refused if proposal.screened else "no edit was proposed"
    if proposal.outcome == "skip_no_rewrite":
        return "skip_no_rewrite", "nobody wrote a usable document"
    return "reject", _without_change(proposal)


def _without_change(proposal: ProposalRecord) -> str:
    rate, race = proposal.learning_rate, proposal.race
    if proposal.refused:
        return f"the guard refused the document: {proposal.refused}"
    if not proposal.n_edits_merged and race is None:
        return "no proposed edit was left after merging"
    if race is not None and not any(one.kept for one in race.effects):
        return "no edit proved itself in the race"
    if rate is not None and not rate.learning_rate:
        why = "gave no usable learning rate" if rate.fallback else "chose to apply no edit"
        return f"the optimizer {why}"
    return "no proposed edit changed the skill"


def _hard(measurement: Measurement) -> dict[str, float]:
    return {task: hard for task, (hard, _) in measurement.tasks.items()}
