"""The second half of a step: measure the candidate and let the gate decide."""

from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.records import Decision, Measurement, ProposalRecord
from skillopt_ci.progress import StageFinished
from skillopt_ci.report.verdict import verdict as in_words
from skillopt_ci.rollout.metrics import paired
from skillopt_ci.training.gate import Verdict, decide
from skillopt_ci.training.measure import measure
from skillopt_ci.training.memory import measured_before
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Settled


async def judge(
    session: Session, standing: Settled, proposal: ProposalRecord, skill: str, bench: Bench
) -> Decision:
    """The verdict on the candidate ``skill``; measures it unless that was done before."""
    state = standing.state
    before = state.current.measurement
    if not proposal.changed:
        return _unmeasured(session, before, proposal)
    known = measured_before(session, standing, proposal.skill_after)
    measurement = known[1] if known else await _measure(session, skill, bench)
    verdict = _verdict(session, before, state.best.measurement, measurement)
    flips = paired(_hard(before), _hard(measurement))
    session.observer(StageFinished("gate", in_words(verdict.action, verdict.candidate)))
    return Decision(
        action=verdict.action,
        reason=verdict.reason,
        metric=session.config.evaluation.gate_metric,
        score_before=verdict.current,
        score_after=verdict.candidate,
        measurement=measurement,
        compared=flips.n,
        fixed=flips.fixed,
        broken=flips.broken,
        measured_under=session.measured_under,
        reused_from=known[0] if known else None,
    )


def _unmeasured(session: Session, before: Measurement, proposal: ProposalRecord) -> Decision:
    none = not proposal.edits
    return Decision(
        action="skip_no_patches" if none else "reject",
        reason="no edit was proposed" if none else "no proposed edit changed the skill",
        metric=session.config.evaluation.gate_metric,
        score_before=before.score,
        score_after=None,
    )


async def _measure(session: Session, skill: str, bench: Bench) -> Measurement:
    return await measure(
        skill,
        session.selection,
        runner=bench.runner,
        evaluation=session.config.evaluation,
        observer=session.observer,
    )


def _verdict(
    session: Session, current: Measurement, best: Measurement, candidate: Measurement
) -> Verdict:
    """Compare over the tasks that all sides measured, so that an error tips no scale."""
    shared = [task for task in candidate.tasks if task in current.tasks and task in best.tasks]
    if not shared:
        raise TooManyErrors("No selection task was measured under both skills.")
    return decide(
        [candidate.tasks[task] for task in shared],
        [current.tasks[task] for task in shared],
        [best.tasks[task] for task in shared],
        evaluation=session.config.evaluation,
    )


def _hard(measurement: Measurement) -> dict[str, float]:
    return {task: hard for task, (hard, _) in measurement.tasks.items()}
