"""What earlier steps left behind for this one: the step buffer, and skills measured already."""

from functools import partial

from skillopt_ci.ledger.records import EditRecord, Measurement, StepRecord
from skillopt_ci.report.commit import applied_edits
from skillopt_ci.skill.edit import Edit
from skillopt_ci.training.patch import FailurePattern
from skillopt_ci.training.session import Session
from skillopt_ci.training.standing import Settled, Standing
from skillopt_ci.training.step_buffer import BufferedStep


def steps_of_epoch(session: Session, standing: Standing, epoch: int) -> tuple[StepRecord, ...]:
    """The evidence of the epoch's steps so far, read from the tree: it survives any restart."""
    read = partial(session.ledger.read, standing.commit)
    numbers = [one.step for one in standing.history if one.kind == "step" and one.epoch == epoch]
    records = (session.folder.read_step(read, number) for number in numbers)
    return tuple(record for record in records if record is not None)


def buffered(record: StepRecord) -> BufferedStep | None:
    """What the optimizer is told of an earlier step; None if nothing was proposed."""
    decision, proposal = record.decision, record.proposal
    if decision is None or decision.action == "skip_no_patches":
        return None
    rejected = () if record.merged else tuple(_edit(edit) for edit in applied_edits(proposal))
    return BufferedStep(
        step=record.step,
        action=decision.action,
        n_total=proposal.rollout.n,
        n_fail=sum(task.failed for task in proposal.rollout.tasks),
        patterns=tuple(
            FailurePattern("", pattern.description, pattern.count, pattern.task_ids)
            for pattern in proposal.patterns
        ),
        score_before=decision.score_before,
        score_after=decision.score_after,
        rejected_edits=rejected,
    )


def measured_before(
    session: Session, standing: Settled, candidate: str
) -> tuple[int, Measurement] | None:
    """The step that measured this very text under the same conditions, and what it found."""
    state = standing.state
    if state.measured_under == session.measured_under:
        for snapshot in (state.current, state.best):
            if snapshot.sha256 == candidate:
                return snapshot.step, snapshot.measurement
    read = partial(session.ledger.read, standing.commit)
    for entry in reversed(standing.history):
        if entry.candidate_sha256 != candidate:
            continue
        record = session.folder.read_step(read, entry.step)
        decision = None if record is None else record.decision
        if (
            decision is not None
            and decision.measurement is not None
            and decision.measured_under == session.measured_under
        ):
            return entry.step, decision.measurement
    return None


def _edit(edit: EditRecord) -> Edit:
    return Edit(edit.op, edit.target, edit.content)
