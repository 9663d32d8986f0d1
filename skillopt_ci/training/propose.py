"""The first half of a step: plan · rollout · reflect · aggregate · select · update."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skillopt_ci.ledger.records import (
    EditRecord,
    LearningRateRecord,
    NotesRecord,
    PatternRecord,
    ProposalRecord,
    RaceRecord,
    RolloutRecord,
    SuggestionRecord,
    TaskOutcome,
    UsageRecord,
)
from skillopt_ci.model.types import Usage
from skillopt_ci.progress import Observer, StageFinished
from skillopt_ci.rollout.metrics import aggregate as mean_of
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.edits import EditReport
from skillopt_ci.skill.regions import with_notes
from skillopt_ci.text import plural
from skillopt_ci.training.aggregate import merge
from skillopt_ci.training.appendix import take_notes
from skillopt_ci.training.baseline import all_solved
from skillopt_ci.training.edit_ablation import pool_size, try_edits
from skillopt_ci.training.guard import GuardContext, guard_context, refuse_document, without_secrets
from skillopt_ci.training.memory import buffered, meta_skill, steps_of_epoch
from skillopt_ci.training.memory import render as render_buffer
from skillopt_ci.training.modes import Desk, Updated, UpdateMode, update_mode
from skillopt_ci.training.plan import (
    Batch,
    StepPlan,
    analyst_budget,
    decide_learning_rate,
    edit_budget,
    lr_control,
)
from skillopt_ci.training.replies import Patch, Reflection, Suggestion
from skillopt_ci.training.review_comments import ReviewerNote, note_records, render, unheard
from skillopt_ci.training.rollout_stage import (
    Learned,
    WorkedBatch,
    batch_record,
    learn,
    work_on,
)
from skillopt_ci.training.run_context import Bench, Run
from skillopt_ci.training.select import Selected, select
from skillopt_ci.training.state import Standing
from skillopt_ci.training.update import update

# The record of how a candidate came about, from what the stages returned.


@dataclass(frozen=True, slots=True)
class Choice:
    """What was left after merging, how much of it was allowed (and by whom), what was taken."""

    merged: Patch[Any]
    limit: int | None
    learning_rate: LearningRateRecord | None
    selected: Selected[Any]
    race: RaceRecord | None = None

    @property
    def kept(self) -> tuple[int, ...] | None:
        """The numbers (from 0) of the edits that go into the candidate; None means all."""
        if self.race is None:
            return None
        return tuple(n for n, effect in enumerate(self.race.effects) if effect.kept)


def proposal_record(
    worked: Sequence[WorkedBatch],
    choice: Choice,
    updated: Updated,
    notes: NotesRecord | None = None,
    heard: Sequence[ReviewerNote] = (),
    *,
    mode: UpdateMode[Any],
    before: str,
    config_sha256: str,
    usage: Mapping[str, Usage],
) -> ProposalRecord:
    """Return the evidence of a candidate that ``updated`` the text ``before``.

    ``heard`` are the reviewers' notes that the analysts were given.
    """
    rollouts = [rollout for one in worked for rollout in one.rollouts]
    reflections = [reflection for one in worked for reflection in one.reflections]
    patch = choice.selected.patch
    return ProposalRecord(
        rollout=_rollout_record(rollouts),
        batches=tuple(map(batch_record, worked)),
        patterns=_pattern_records(reflections),
        n_failure_patches=_patches(reflections, "failure"),
        n_success_patches=_patches(reflections, "success"),
        n_edits_merged=len(choice.merged.edits),
        mode=mode.name,
        edit_budget=choice.limit,
        learning_rate=choice.learning_rate,
        selection=choice.selected.how,
        reasoning="\n\n".join(filter(None, (patch.reasoning, updated.reasoning))),
        edits=tuple(
            _edit_record(report, [note.id for note in heard]) for report in updated.reports
        ),
        suggestions=_suggestion_records(patch.edits),
        change_summary=updated.change_summary,
        notes=notes,
        reviewer_notes=note_records(heard, _proposed_for(reflections), _taken_for(choice, updated)),
        race=choice.race,
        outcome=updated.outcome,
        refused=updated.refused,
        screened=tuple(reason for one in reflections for reason in one.refused),
        diff=unified_diff(before, updated.skill),
        skill_before=sha256(before),
        skill_after=sha256(updated.skill),
        config_sha256=config_sha256,
        usage={stage: UsageRecord.of(one) for stage, one in usage.items()},
    )


def publishable(record: ProposalRecord, guard: GuardContext) -> ProposalRecord:
    """Return the record without secrets: what the guard refused must not enter git beside it."""
    if not guard.rules.secrets:
        return record
    return ProposalRecord.model_validate(_cleaned(record.model_dump(mode="json"), guard.keys))


def _cleaned(value: object, keys: Sequence[str]) -> object:
    match value:
        case str():
            return without_secrets(value, keys)
        case list():
            return [_cleaned(one, keys) for one in value]
        case dict():
            return {key: _cleaned(one, keys) for key, one in value.items()}
    return value


def _patches(reflections: Sequence[Reflection[Any]], source: str) -> int:
    return sum(1 for one in reflections if one.source_type == source and one.patch.edits)


def _pattern_records(reflections: Iterable[Reflection[Any]]) -> tuple[PatternRecord, ...]:
    return tuple(
        PatternRecord(
            description=": ".join(filter(None, (seen.failure_type, seen.description))),
            count=seen.count,
            task_ids=seen.task_ids,
        )
        for reflection in reflections
        for seen in reflection.failure_patterns
    )


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
                attempt=one.attempt,
            )
            for one in rollouts
        ),
    )


def _proposed_for(reflections: Iterable[Reflection[Any]]) -> list[str]:
    """The reviewers' notes that proposed edits follow, once for each edit."""
    return [note for one in reflections for edit in one.patch.edits for note in edit.note_ids]


def _taken_for(choice: Choice, updated: Updated) -> list[str]:
    """The same for those edits that went into the candidate."""
    if not updated.reports:
        carried_out = updated.outcome == "updated" and not updated.refused
        edits = choice.selected.patch.edits if carried_out else ()
        return [note for edit in edits for note in edit.note_ids]
    applied = (report.edit for report in updated.reports if report.status.applied)
    return [note for edit in applied for note in edit.note_ids]


def _edit_record(report: EditReport, heard: Sequence[str]) -> EditRecord:
    edit = report.edit
    return EditRecord(
        op=edit.op,
        target=edit.target,
        content=edit.content,
        source_type=edit.source_type,
        support_count=edit.support_count,
        status=report.status.value,
        reason=report.reason,
        note_ids=tuple(note for note in heard if note in edit.note_ids),
    )


def _suggestion_records(edits: Iterable[object]) -> tuple[SuggestionRecord, ...]:
    return tuple(
        SuggestionRecord(
            type=edit.type,
            title=edit.title,
            instruction=edit.instruction,
            motivation=edit.motivation,
            priority_hint=edit.priority_hint,
            source_type=edit.source_type,
            support_count=edit.support_count,
        )
        for edit in edits
        if isinstance(edit, Suggestion)
    )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate: the skill after the update, and the record of how it came about."""

    skill: str
    record: ProposalRecord


async def propose(
    run: Run, standing: Standing, plan: StepPlan, total: int, bench: Bench
) -> Proposal:
    """Work out the step's candidate from the training tasks that ``plan`` names."""
    optimizer, skill = run.config.optimizer, standing.skill
    mode, guard = update_mode(optimizer), guard_context(run, standing)
    heard = unheard(run.notes, standing.state) if analyst_budget(optimizer) != 0 else ()
    earlier = map(buffered, steps_of_epoch(run, standing, plan.epoch))
    desk = Desk(
        client=bench.client,
        prompts=run.prompts,
        observer=run.observer,
        step_buffer=render_buffer([one for one in earlier if one is not None]),
        meta_skill=meta_skill(run, standing),
        guidance=render(heard),
        refuse=partial(refuse_document, context=guard),
    )

    async def learn_from(batch: Batch, observer: Observer) -> Learned:
        # what earlier steps learnt from is read once, not in every batch
        recalls = batch == plan.batches[0]
        at_work = replace(desk, observer=observer)
        return await learn(run, standing, batch, mode, at_work, bench, recalls=recalls)

    worked = await work_on(plan.batches, learn_from, run.observer)
    rollouts = [rollout for one in worked for rollout in one.rollouts]
    reflections = [reflection for one in worked for reflection in one.reflections]
    if note := all_solved(plan.step, rollouts):
        run.observer(note)
    merged = await merge(skill, reflections, mode=mode, gradient=run.config.gradient, desk=desk)
    run.observer(StageFinished("aggregate", f"{plural(len(merged.edits), mode.noun)} left"))
    control, rate, limit = lr_control(optimizer), None, None
    if control == "autonomous" and merged.edits:
        means = mean_of(rollouts)
        rate = await decide_learning_rate(skill, merged.edits, means, mode=mode, desk=desk)
        limit = rate.learning_rate
    else:
        if control == "fixed":
            limit = edit_budget(optimizer, plan.step, total)
        limit = pool_size(run.config, limit)
    selected = await select(skill, merged, limit, mode=mode, desk=desk)
    most = "without limit" if limit is None else f"of at most {limit}"
    count = plural(len(selected.patch.edits), mode.noun)
    run.observer(StageFinished("select", f"{count} {most}"))
    patch, race = await try_edits(run, standing, plan, selected.patch, bench, desk)
    choice = Choice(merged, limit, rate, replace(selected, patch=patch), race)
    updated = await update(skill, patch.edits, mode=mode, desk=desk, keep=choice.kept)
    run.observer(StageFinished("update", _updated_text(updated)))
    threshold = optimizer.skill_aware_consolidate_threshold
    notes = await take_notes(skill, updated.skill, reflections, threshold, desk)
    if notes is not None:
        updated = replace(updated, skill=with_notes(updated.skill, notes.appendix))
    record = proposal_record(
        worked,
        choice,
        updated,
        notes,
        heard if reflections else (),
        mode=mode,
        before=skill,
        config_sha256=run.config_sha256,
        usage=bench.meter.usage_by_stage(),
    )
    return Proposal(updated.skill, publishable(record, guard))


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
