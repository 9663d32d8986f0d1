"""The first half of a step: plan · rollout · reflect · aggregate · select · update."""

from collections.abc import Sequence
from dataclasses import dataclass

from skillopt_ci.ledger.records import (
    EditRecord,
    PatternRecord,
    ProposalRecord,
    RolloutRecord,
    TaskOutcome,
    UsageRecord,
)
from skillopt_ci.progress import StageAdvanced, StageFinished, StageStarted
from skillopt_ci.report.figures import plural, score_text
from skillopt_ci.rollout.metrics import aggregate as mean_of
from skillopt_ci.rollout.outcome import Rollout
from skillopt_ci.rollout.runner import refuse_too_many_errors
from skillopt_ci.skill.apply import apply_edits
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.edit import EditReport
from skillopt_ci.training.aggregate import merge
from skillopt_ci.training.memory import buffered, steps_of_epoch
from skillopt_ci.training.patch import Patch, Reflection
from skillopt_ci.training.plan import Batch, StepPlan
from skillopt_ci.training.reflect import reflect
from skillopt_ci.training.schedule import edit_budget
from skillopt_ci.training.select import Selected, select
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Standing
from skillopt_ci.training.step_buffer import render as render_buffer


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate: the skill after the selected edits, and the record of how it came about."""

    skill: str
    record: ProposalRecord


async def propose(
    session: Session, standing: Standing, plan: StepPlan, total: int, bench: Bench
) -> Proposal:
    """Work out the step's candidate from the training tasks that ``plan`` names."""
    budget = edit_budget(session.config.optimizer, plan.step, total)
    rollouts: list[Rollout] = []
    reflections: list[Reflection] = []
    for batch in plan.batches:
        results = await _roll_out(session, standing.skill, batch, bench)
        rollouts += results
        reflections += await _reflect(session, standing, plan, batch, results, bench)
    merged = await _aggregate(session, standing.skill, reflections, bench)
    chosen = await _select(session, standing.skill, merged, budget, bench)
    skill, reports = apply_edits(standing.skill, chosen.patch.edits)
    session.observer(StageFinished("update", _applied_text(reports)))
    record = ProposalRecord(
        rollout=_rollout_record(rollouts),
        patterns=tuple(
            PatternRecord(
                description=": ".join(filter(None, (seen.failure_type, seen.description))),
                count=seen.count,
                task_ids=seen.task_ids,
            )
            for reflection in reflections
            for seen in reflection.failure_patterns
        ),
        n_failure_patches=_patches(reflections, "failure"),
        n_success_patches=_patches(reflections, "success"),
        n_edits_merged=len(merged.edits),
        edit_budget=budget,
        selection=chosen.how,
        reasoning=chosen.patch.reasoning,
        edits=tuple(_edit_record(report) for report in reports),
        diff=unified_diff(standing.skill, skill),
        skill_before=standing.sha256,
        skill_after=sha256(skill),
        config_sha256=session.config_sha256,
        usage={stage: UsageRecord.of(one) for stage, one in bench.meter.usage_by_stage().items()},
    )
    return Proposal(skill, record)


async def _roll_out(
    session: Session, skill: str, batch: Batch, bench: Bench
) -> tuple[Rollout, ...]:
    observer = session.observer
    observer(StageStarted("rollout", len(batch.tasks)))
    rollouts = await bench.runner.roll_out(
        batch.tasks,
        skill,
        stage="rollout",
        done=lambda one: observer(StageAdvanced("rollout", one.task_id)),
    )
    refuse_too_many_errors(rollouts, session.config.evaluation.max_error_rate, "training")
    means = mean_of(rollouts)
    observer(StageFinished("rollout", score_text(means.hard, means.n)))
    return rollouts


async def _reflect(
    session: Session,
    standing: Standing,
    plan: StepPlan,
    batch: Batch,
    rollouts: Sequence[Rollout],
    bench: Bench,
) -> tuple[Reflection, ...]:
    earlier = [buffered(record) for record in steps_of_epoch(session, standing, plan.epoch)]
    found = await reflect(
        rollouts,
        {task.id: task for task in batch.tasks},
        standing.skill,
        gradient=session.config.gradient,
        learning_rate=session.config.optimizer.learning_rate,
        seed=batch.seed,
        step_buffer=render_buffer([one for one in earlier if one is not None]),
        prompts=session.prompts,
        client=bench.client,
        observer=session.observer,
    )
    edits = sum(len(one.patch.edits) for one in found)
    session.observer(StageFinished("reflect", f"{plural(edits, 'edit')} proposed"))
    return found


async def _aggregate(
    session: Session, skill: str, reflections: Sequence[Reflection], bench: Bench
) -> Patch:
    merged = await merge(
        skill,
        reflections,
        gradient=session.config.gradient,
        prompts=session.prompts,
        client=bench.client,
        observer=session.observer,
    )
    session.observer(StageFinished("aggregate", f"{plural(len(merged.edits), 'edit')} left"))
    return merged


async def _select(
    session: Session, skill: str, merged: Patch, budget: int, bench: Bench
) -> Selected:
    chosen = await select(
        skill,
        merged,
        budget,
        prompts=session.prompts,
        client=bench.client,
        observer=session.observer,
    )
    text = f"{plural(len(chosen.patch.edits), 'edit')} of at most {budget}"
    session.observer(StageFinished("select", text))
    return chosen


def _patches(reflections: Sequence[Reflection], source: str) -> int:
    return sum(1 for one in reflections if one.source_type == source and one.patch.edits)


def _rollout_record(rollouts: Sequence[Rollout]) -> RolloutRecord:
    means = mean_of(rollouts)
    return RolloutRecord(
        hard=means.hard,
        soft=means.soft,
        n=means.n,
        errors=means.errors,
        tasks=tuple(
            TaskOutcome(
                id=one.task_id,
                status=one.status,
                hard=one.hard,
                soft=one.soft,
                reason=one.reason[:300],
                task_type=one.task_type,
            )
            for one in rollouts
        ),
    )


def _edit_record(report: EditReport) -> EditRecord:
    edit = report.edit
    return EditRecord(
        op=edit.op,
        target=edit.target,
        content=edit.content,
        source_type=edit.source_type,
        support_count=edit.support_count,
        status=report.status.value,
    )


def _applied_text(reports: Sequence[EditReport]) -> str:
    applied = sum(1 for report in reports if report.status.applied)
    return f"{applied} of {plural(len(reports), 'edit')} applied"
