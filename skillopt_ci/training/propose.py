"""The first half of a step: plan · rollout · reflect · aggregate · select · update."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skillopt_ci.ledger.records import LearningRateRecord, ProposalRecord
from skillopt_ci.progress import StageFinished
from skillopt_ci.report.text import plural
from skillopt_ci.rollout.metrics import aggregate as mean_of
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.regions import with_notes
from skillopt_ci.training.accumulate import WorkedBatch, work_on
from skillopt_ci.training.aggregate import merge
from skillopt_ci.training.evidence import attempts_so_far
from skillopt_ci.training.first_look import all_solved
from skillopt_ci.training.footing import find_footing
from skillopt_ci.training.guard import GuardContext, refuse_document
from skillopt_ci.training.guard_context import guard_context
from skillopt_ci.training.learning import Lesson, learn
from skillopt_ci.training.learning_rate import decide_learning_rate
from skillopt_ci.training.memory import buffered, meta_skill, steps_of_epoch
from skillopt_ci.training.modes.choose import update_mode
from skillopt_ci.training.modes.mode import Desk, Updated, UpdateMode
from skillopt_ci.training.notes import take_notes
from skillopt_ci.training.patch import Item, Patch
from skillopt_ci.training.plan import StepPlan
from skillopt_ci.training.proposal_record import Choice, proposal_record, publishable
from skillopt_ci.training.reviewer_notes import ReviewerNote, render, unheard
from skillopt_ci.training.schedule import analyst_budget, edit_budget, lr_control
from skillopt_ci.training.select import Selected, select
from skillopt_ci.training.session import Bench, Session
from skillopt_ci.training.standing import Standing
from skillopt_ci.training.step_buffer import render as render_buffer
from skillopt_ci.training.trial import pool_size, try_edits
from skillopt_ci.training.update import update


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate: the skill after the update, and the record of how it came about."""

    skill: str
    record: ProposalRecord


async def propose(
    session: Session, standing: Standing, plan: StepPlan, total: int, bench: Bench
) -> Proposal:
    """Work out the step's candidate from the training tasks that ``plan`` names."""
    optimizer = session.config.optimizer
    mode, guard = update_mode(optimizer), guard_context(session, standing)
    asks = analyst_budget(optimizer) != 0
    heard = unheard(session.notes, standing.state) if asks else ()
    desk = _desk(session, standing, plan, guard, bench, heard)
    footing, made = find_footing(session, standing), attempts_so_far(session, standing)
    lesson = Lesson(session, standing.skill, made, footing, mode, desk, bench)
    worked = await work_on(
        plan.batches,
        # what earlier steps learnt from is read once, not in every batch
        lambda batch, observer: learn(lesson, batch, observer, recalls=batch == plan.batches[0]),
        session.observer,
    )
    if note := all_solved(plan.step, (each for one in worked for each in one.rollouts)):
        session.observer(note)
    choice = await _choose(session, standing.skill, plan.step, total, worked, mode, desk)
    choice = await _race(session, standing, plan, choice, bench, desk)
    updated = await update(
        standing.skill, choice.selected.patch.edits, mode=mode, desk=desk, keep=choice.kept
    )
    session.observer(StageFinished("update", _updated_text(updated)))
    reflections = [reflection for one in worked for reflection in one.reflections]
    threshold = optimizer.skill_aware_consolidate_threshold
    notes = await take_notes(standing.skill, updated.skill, reflections, threshold, desk)
    skill = updated.skill if notes is None else with_notes(updated.skill, notes.appendix)
    record = proposal_record(
        worked,
        choice,
        replace(updated, skill=skill),
        notes,
        heard if reflections else (),
        mode=mode,
        before=standing.skill,
        attempted=footing.skill,
        config_sha256=session.config_sha256,
        usage=bench.meter.usage_by_stage(),
    )
    return Proposal(skill, publishable(record, guard))


def _desk(
    session: Session,
    standing: Standing,
    plan: StepPlan,
    guard: GuardContext,
    bench: Bench,
    heard: Sequence[ReviewerNote],
) -> Desk:
    earlier = [buffered(record) for record in steps_of_epoch(session, standing, plan.epoch)]
    return Desk(
        client=bench.client,
        prompts=session.prompts,
        observer=session.observer,
        step_buffer=render_buffer([one for one in earlier if one is not None]),
        meta_skill=meta_skill(session, standing),
        guidance=render(heard),
        refuse=partial(refuse_document, context=guard),
    )


async def _choose(
    session: Session,
    skill: str,
    step: int,
    total: int,
    worked: Sequence[WorkedBatch],
    mode: UpdateMode[Any],
    desk: Desk,
) -> Choice:
    """Aggregate what the analysts propose, and select from it within the learning rate."""
    reflections = [reflection for one in worked for reflection in one.reflections]
    merged = await merge(
        skill,
        reflections,
        mode=mode,
        gradient=session.config.gradient,
        prompts=desk.prompts,
        client=desk.client,
        observer=desk.observer,
        meta_skill=desk.meta_skill,
    )
    desk.observer(StageFinished("aggregate", f"{plural(len(merged.edits), mode.noun)} left"))
    rollouts = [rollout for one in worked for rollout in one.rollouts]
    rate = await _learning_rate(session, skill, rollouts, merged, mode, desk)
    control = lr_control(session.config.optimizer)
    budget = edit_budget(session.config.optimizer, step, total) if control == "fixed" else None
    limit = pool_size(session.config, budget) if rate is None else rate.learning_rate
    return Choice(merged, limit, rate, await _select(skill, merged, limit, mode, desk))


async def _race(
    session: Session,
    standing: Standing,
    plan: StepPlan,
    choice: Choice,
    bench: Bench,
    desk: Desk,
) -> Choice:
    selected = choice.selected
    patch, found = await try_edits(session, standing, plan, selected.patch, bench, desk)
    return replace(choice, selected=replace(selected, patch=patch), race=found)


async def _learning_rate(
    session: Session,
    skill: str,
    rollouts: Sequence[Rollout],
    merged: Patch[Item],
    mode: UpdateMode[Item],
    desk: Desk,
) -> LearningRateRecord | None:
    """The optimizer's own choice, where it has one."""
    if not merged.edits or lr_control(session.config.optimizer) != "autonomous":
        return None
    return await decide_learning_rate(skill, merged.edits, mean_of(rollouts), mode=mode, desk=desk)


async def _select(
    skill: str, merged: Patch[Item], limit: int | None, mode: UpdateMode[Item], desk: Desk
) -> Selected[Item]:
    chosen = await select(
        skill,
        merged,
        limit,
        mode=mode,
        prompts=desk.prompts,
        client=desk.client,
        observer=desk.observer,
        meta_skill=desk.meta_skill,
    )
    most = "without limit" if limit is None else f"of at most {limit}"
    count = plural(len(chosen.patch.edits), mode.noun)
    desk.observer(StageFinished("select", f"{count} {most}"))
    return chosen


def _updated_text(updated: Updated) -> str:
    if updated.refused:
        return f"refused: {updated.refused}"
    if updated.outcome == "skip_no_rewrite":
        return "no usable document"
    if not updated.reports:
        changes = len(updated.change_summary)
        return f"{plural(changes, 'change')} by a rewrite" if changes else "nothing to apply"
    applied = sum(1 for report in updated.reports if report.status.applied)
    return f"{applied} of {plural(len(updated.reports), 'edit')} applied"
