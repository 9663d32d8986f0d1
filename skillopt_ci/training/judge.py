"""The second half of a step: measure the candidate and let the gate decide."""

from collections.abc import Sequence

from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.records import Action, Decision, Measurement, ProposalRecord
from skillopt_ci.progress import StageFinished
from skillopt_ci.report.verdict import verdict as in_words
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.settings.config import Evaluation
from skillopt_ci.skill.appendix import with_notes
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import as_read
from skillopt_ci.training.gate import Contender, Gate, Verdict, admit_notes, decide
from skillopt_ci.training.measure import measure
from skillopt_ci.training.memory import measured_before
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
    """Measure the text ``skill`` and let ``gate`` compare it with the current one."""
    state = standing.state
    before = state.current.measurement
    known = known_measurement(session, standing, skill)
    measurement = known[1] if known else await _measure(session, skill, bench)
    verdict = _verdict(gate, evaluation, before, state.best.measurement, measurement)
    flips = paired(_hard(before), _hard(measurement))
    session.observer(StageFinished("gate", in_words(verdict.action, verdict.candidate)))
    return Decision(
        action=verdict.action,
        reason=verdict.reason,
        metric=evaluation.gate_metric,
        score_before=verdict.current,
        score_after=verdict.candidate,
        measurement=measurement,
        compared=flips.n,
        fixed=flips.fixed,
        broken=flips.broken,
        measured_under=session.measured_under,
        reused_from=known[0] if known else None,
        beats_best=verdict.beats_best,
    )


def known_measurement(
    session: Session, standing: Settled, skill: str
) -> tuple[int, Measurement] | None:
    """The step that measured ``skill``, or one that the target reads the same, and its finding."""
    return _read_the_same(standing, skill) or measured_before(session, standing, sha256(skill))


def _read_the_same(standing: Settled, skill: str) -> tuple[int, Measurement] | None:
    """The current skill's measurement, where the target reads the same: an empty region is new."""
    current = standing.state.current
    if as_read(skill).strip() != as_read(standing.skill).strip():
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
    rate = proposal.learning_rate
    if not proposal.n_failure_patches + proposal.n_success_patches:
        refused = "the guard refused all that was proposed"
        return "skip_no_patches", refused if proposal.screened else "no edit was proposed"
    if proposal.outcome == "skip_no_rewrite":
        return "skip_no_rewrite", "nobody wrote a usable document"
    if proposal.refused:
        return "reject", f"the guard refused the document: {proposal.refused}"
    if not proposal.n_edits_merged:
        return "reject", "no proposed edit was left after merging"
    if rate is not None and not rate.learning_rate:
        why = "gave no usable learning rate" if rate.fallback else "chose to apply no edit"
        return "reject", f"the optimizer {why}"
    return "reject", "no proposed edit changed the skill"


async def _measure(session: Session, skill: str, bench: Bench) -> Measurement:
    return await measure(
        skill,
        session.selection,
        runner=bench.runner,
        evaluation=session.config.evaluation,
        observer=session.observer,
    )


def _verdict(
    gate: Gate,
    evaluation: Evaluation,
    current: Measurement,
    best: Measurement,
    candidate: Measurement,
) -> Verdict:
    """Compare over the tasks that all sides measured, so that an error tips no scale."""
    shared = [task for task in candidate.tasks if task in current.tasks and task in best.tasks]
    if not shared:
        raise TooManyErrors("No selection task was measured under both skills.")
    ours, theirs, record = (contender(one, shared) for one in (candidate, current, best))
    return gate(ours, theirs, record, evaluation=evaluation)


def contender(measurement: Measurement, tasks: Sequence[str]) -> Contender:
    """What of a measurement the gate compares over ``tasks``."""
    scores = [measurement.tasks[task] for task in tasks]
    return Contender(scores, measurement.density, measurement.words)


def _hard(measurement: Measurement) -> dict[str, float]:
    return {task: hard for task, (hard, _) in measurement.tasks.items()}
