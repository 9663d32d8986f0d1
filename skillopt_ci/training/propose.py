"""The first half of a step: rollout, reflect, aggregate, select, update."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from skillopt_ci.ledger import evidence
from skillopt_ci.model.types import by_stage
from skillopt_ci.progress import Note
from skillopt_ci.redaction import redacted_values
from skillopt_ci.rollout.metrics import aggregate as mean_of
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.regions import with_notes
from skillopt_ci.training.aggregate import Selected, merge, select
from skillopt_ci.training.ask import OptimizerChat
from skillopt_ci.training.guard import guard_context, without_secrets
from skillopt_ci.training.memory import meta_skill, step_buffer
from skillopt_ci.training.plan import (
    StepPlan,
    analyst_budget,
    decide_learning_rate,
    edit_budget,
    last_step_of,
    lr_control,
)
from skillopt_ci.training.replies import Reflection, Suggestion
from skillopt_ci.training.review_comments import (
    RECORDED_CHARACTERS,
    ReviewerNote,
    render_notes,
    unheard,
)
from skillopt_ci.training.rollout_stage import WorkedBatch, batch_record, learn, work_on
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import Checkout
from skillopt_ci.training.update import Updated, take_notes, update, update_mode


async def propose(
    run: Run, checkout: Checkout, plan: StepPlan, models: OpenModels
) -> tuple[str, evidence.ProposalRecord]:
    """Make the step's candidate from the training tasks of ``plan``; return it and its record."""
    optimizer, skill = run.config.optimizer, checkout.skill
    mode, guard = update_mode(optimizer), guard_context(run, checkout)
    heard = unheard(run.notes, checkout.state) if analyst_budget(optimizer) != 0 else ()
    chat = OptimizerChat(
        client=models.client,
        prompts=run.prompts,
        observer=run.observer,
        step_buffer=step_buffer(run, checkout, plan.epoch),
        meta_skill=meta_skill(run, checkout),
        guidance=render_notes(heard),
        refuse=guard.refuse,
    )
    work = partial(learn, run, checkout, plan, mode, chat, models)
    worked = await work_on(plan.batches, work, run.observer)
    rollouts = [rollout for one in worked for rollout in one.rollouts]
    if plan.step == 1 and rollouts and all(one.succeeded for one in rollouts):
        text = (
            f"All {len(rollouts)} training tasks of the first step were solved without training: "
            "there are no failures to learn from. Harder tasks would show some."
        )
        run.observer(Note(text, level="warning"))
    reflections = [reflection for one in worked for reflection in one.reflections]
    merged = await merge(skill, reflections, mode=mode, gradient=run.config.gradient, chat=chat)
    limit = edit_budget(optimizer, plan.step, last_step_of(run, checkout))
    rate, undecided = None, None
    if lr_control(optimizer) == "autonomous" and merged.edits:
        rate, undecided = await decide_learning_rate(
            skill, merged.edits, mean_of(rollouts), mode=mode, chat=chat
        )
        limit = rate.learning_rate
    several = run.config.gradient.analysts > 1
    selected = await select(skill, merged, limit, mode=mode, chat=chat, trust_order=several)
    updated = await update(skill, selected.patch.edits, mode=mode, chat=chat)
    threshold = optimizer.skill_aware_consolidate_threshold
    notes = await take_notes(skill, updated.skill, reflections, threshold, chat)
    after = updated.skill if notes is None else with_notes(updated.skill, notes.appendix)
    lost = [one for batch in worked for one in batch.lost]
    lost += filter(None, (undecided, updated.lost))
    unusable = tuple(
        evidence.UnusableReply(reason=one.error.message, beginning=one.reply.strip()[:300])
        for one in lost
    )
    asked = len(unusable) + len(reflections)
    used = by_stage(models.meter.accounts())
    facts = {
        **_evidence(worked, rollouts, reflections, selected, updated, heard),
        "n_edits_merged": len(merged.edits),
        "mode": mode.name,
        "edit_budget": limit,
        "learning_rate": rate,
        "notes": notes,
        "unusable": evidence.UnusableReplies(asked=asked, replies=unusable) if unusable else None,
        "diff": unified_diff(skill, after),
        "skill_before": sha256(skill),
        "skill_after": sha256(after),
        "config_sha256": run.config_sha256,
        "usage": {stage: evidence.as_recorded(one) for stage, one in used.items()},
    }
    record = evidence.ProposalRecord.model_validate(facts)
    if guard.rules.secrets:
        # what the guard keeps out of the skill must not enter git in the record
        told = redacted_values(
            record.model_dump(mode="json"), partial(without_secrets, keys=guard.keys)
        )
        record = evidence.ProposalRecord.model_validate(told)
    return after, record


def _evidence(
    worked: Sequence[WorkedBatch],
    rollouts: Sequence[Rollout],
    reflections: Sequence[Reflection[Any]],
    selected: Selected[Any],
    updated: Updated,
    heard: Sequence[ReviewerNote],
) -> dict[str, object]:
    batches = tuple(map(batch_record, worked))
    tasks = (
        evidence.TaskOutcome(
            id=one.task_id,
            status=one.status,
            hard=one.hard,
            soft=one.soft,
            reason=one.reason[:300],
            task_type=one.task_type,
            attempt=one.attempt,
        )
        for one in rollouts
    )
    patch, taken = selected.patch, tuple[Any, ...]()
    if updated.reports:
        taken = tuple(one.edit for one in updated.reports if one.status.applied)
    elif updated.outcome == "updated" and not updated.refused:
        taken = patch.edits
    read = heard if reflections else ()
    proposed = (edit for one in reflections for edit in one.patch.edits)
    followed = Counter(note for edit in proposed for note in edit.note_ids)
    carried_out = Counter(note for edit in taken for note in edit.note_ids)
    return {
        "rollout": evidence.RolloutRecord(**asdict(mean_of(rollouts)), tasks=tuple(tasks)),
        "batches": batches,
        "patterns": tuple(seen for one in reflections for seen in one.failure_patterns),
        "n_failure_patches": sum(one.n_failure_patches for one in batches),
        "n_success_patches": sum(one.n_success_patches for one in batches),
        "screened": tuple(reason for one in reflections for reason in one.refused),
        "selection": selected.how,
        "reasoning": "\n\n".join(filter(None, (patch.reasoning, updated.reasoning))),
        "edits": tuple(
            evidence.EditRecord(
                op=one.edit.op,
                target=one.edit.target,
                content=one.edit.content,
                source_type=one.edit.source_type,
                support_count=one.edit.support_count,
                status=one.status.value,
                reason=one.reason,
                note_ids=tuple(note.id for note in read if note.id in one.edit.note_ids),
            )
            for one in updated.reports
        ),
        "suggestions": tuple(
            evidence.SuggestionRecord.model_validate(edit, from_attributes=True)
            for edit in patch.edits
            if isinstance(edit, Suggestion)
        ),
        "change_summary": updated.change_summary,
        "outcome": updated.outcome,
        "refused": updated.refused,
        "reviewer_notes": tuple(
            evidence.ReviewerNoteRecord(
                **asdict(replace(note, text=note.text[:RECORDED_CHARACTERS])),
                proposed=followed[note.id],
                taken=carried_out[note.id],
            )
            for note in read
        ),
    }
