"""The first half of a step: rollout, reflect, aggregate, select, update."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from skillopt_ci.ledger import evidence
from skillopt_ci.progress import Note, StageFinished, StageStarted
from skillopt_ci.prompts import library
from skillopt_ci.redaction import redacted_values
from skillopt_ci.rollout.metrics import measured_means
from skillopt_ci.rollout.types import Rollout
from skillopt_ci.skill.diff import unified_diff
from skillopt_ci.skill.document import sha256
from skillopt_ci.skill.edits import EditReport
from skillopt_ci.skill.regions import with_notes
from skillopt_ci.training import replies
from skillopt_ci.training.aggregate import Selected, merge, select
from skillopt_ci.training.ask import Lost, OptimizerChat
from skillopt_ci.training.guard import GuardContext, guard_context, without_secrets
from skillopt_ci.training.memory import meta_skill, step_buffer
from skillopt_ci.training.plan import (
    StepPlan,
    analyst_budget,
    edit_budget,
    last_step_of,
    lr_control,
)
from skillopt_ci.training.review_comments import (
    RECORDED_CHARACTERS,
    ReviewerNote,
    render_notes,
    unheard,
)
from skillopt_ci.training.rollout_stage import batch_record, learn, work_on
from skillopt_ci.training.run_context import OpenModels, Run
from skillopt_ci.training.state import Checkout
from skillopt_ci.training.update import Updated, UpdateMode, take_notes, update, update_mode

_TOO_EASY = (
    "All training tasks of the first step were solved without training: "
    "there are no failures to learn from. Harder tasks would show some."
)


async def propose(
    run: Run, checkout: Checkout, plan: StepPlan, models: OpenModels
) -> tuple[str, evidence.ProposalRecord]:
    """Make the step's candidate from the training tasks of ``plan``; return it and its record."""
    optimizer, skill = run.config.optimizer, checkout.skill
    mode, guard = update_mode(optimizer), guard_context(run, checkout)
    heard = unheard(run.reviewer_notes, checkout.state) if analyst_budget(optimizer) != 0 else ()
    chat = OptimizerChat(
        client=models.client,
        prompts=run.prompts,
        observer=run.observer,
        step_buffer=step_buffer(run, checkout, plan.epoch),
        meta_skill=meta_skill(run, checkout),
        reviewer_guidance=render_notes(heard),
        refuse=guard.refuse,
    )
    work = partial(learn, run, checkout, plan, mode, chat, models)
    worked = await work_on(plan.batches, work, run.observer)
    rollouts = [one for batch in worked for one in batch.rollouts]
    rollout = _rollout_record(rollouts)
    if plan.step == 1 and rollouts and all(one.succeeded for one in rollouts):
        run.observer(Note(_TOO_EASY, level="warning"))
    reflections = [reflection for one in worked for reflection in one.reflections]
    merged = await merge(skill, reflections, mode=mode, gradient=run.config.gradient, chat=chat)
    limit = edit_budget(optimizer, plan.step, last_step_of(run, checkout), plan.extra)
    rate, undecided = None, None
    if lr_control(optimizer) == "autonomous" and merged.edits:
        rate, undecided = await decide_learning_rate(
            skill, merged.edits, rollout, mode=mode, chat=chat
        )
        limit = rate.learning_rate
    selected = await select(
        skill, merged, limit, mode=mode, chat=chat, trust_order=run.config.gradient.analysts > 1
    )
    updated = await update(skill, selected.patch.edits, mode=mode, chat=chat)
    threshold = optimizer.skill_aware_consolidate_threshold
    notes = await take_notes(skill, updated.skill, reflections, threshold, chat)
    after = updated.skill if notes is None else with_notes(updated.skill, notes.appendix)
    batches = tuple(map(batch_record, worked))
    lost = (*(one for batch in worked for one in batch.lost), undecided, updated.lost)
    # if no analyst answered, a later step reads them
    read = heard if reflections else ()
    record = evidence.ProposalRecord(
        rollout=rollout,
        batches=batches,
        patterns=tuple(seen for one in reflections for seen in one.failure_patterns),
        n_failure_patches=sum(one.n_failure_patches for one in batches),
        n_success_patches=sum(one.n_success_patches for one in batches),
        n_edits_merged=len(merged.edits),
        mode=mode.name,
        edit_budget=limit,
        learning_rate=rate,
        selection=selected.how,
        reasoning="\n\n".join(filter(None, (selected.patch.reasoning, updated.reasoning))),
        edits=tuple(_edit_record(one, read) for one in updated.reports),
        suggestions=tuple(
            evidence.SuggestionRecord.model_validate(edit, from_attributes=True)
            for edit in selected.patch.edits
            if isinstance(edit, replies.Suggestion)
        ),
        change_summary=updated.change_summary,
        notes=notes,
        reviewer_notes=tuple(_note_records(read, reflections, selected, updated)),
        outcome=updated.outcome,
        refused=updated.refused,
        screened=tuple(reason for one in reflections for reason in one.refused),
        unusable=_unusable(tuple(filter(None, lost)), len(reflections)),
        diff=unified_diff(skill, after),
        skill_before=sha256(skill),
        skill_after=sha256(after),
        config_sha256=run.config_sha256,
        usage=evidence.by_stage_as_recorded(models.meter.accounts()),
    )
    return after, (_redacted(record, guard) if guard.rules.secrets else record)


def _rollout_record(rollouts: Sequence[Rollout]) -> evidence.RolloutRecord:
    hard, soft, n = measured_means(rollouts)
    return evidence.RolloutRecord(
        hard=hard,
        soft=soft,
        n=n,
        errors=len(rollouts) - n,
        tasks=tuple(
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
        ),
    )


def _edit_record(made: EditReport, read: Sequence[ReviewerNote]) -> evidence.EditRecord:
    edit = made.edit
    return evidence.EditRecord(
        op=edit.op,
        target=edit.target,
        content=edit.content,
        source_type=edit.source_type,
        support_count=edit.support_count,
        status=made.status.value,
        reason=made.reason,
        note_ids=tuple(note.id for note in read if note.id in edit.note_ids),
    )


def _note_records(
    read: Sequence[ReviewerNote],
    reflections: Sequence[replies.Reflection[Any]],
    selected: Selected[Any],
    updated: Updated,
) -> Iterator[evidence.ReviewerNoteRecord]:
    taken: Sequence[Any] = ()
    if updated.reports:
        taken = [one.edit for one in updated.reports if one.status.applied]
    elif updated.outcome == "updated" and not updated.refused:
        taken = selected.patch.edits
    times_proposed = Counter(
        note for one in reflections for edit in one.patch.edits for note in edit.note_ids
    )
    times_taken = Counter(note for edit in taken for note in edit.note_ids)
    for note in read:
        yield evidence.ReviewerNoteRecord(
            id=note.id,
            author=note.author,
            text=note.text[:RECORDED_CHARACTERS],
            path=note.path,
            line=note.line,
            url=note.url,
            proposed=times_proposed[note.id],
            taken=times_taken[note.id],
        )


def _unusable(lost: Sequence[Lost], answered: int) -> evidence.UnusableReplies | None:
    replied = tuple(
        evidence.UnusableReply(reason=one.error.message, beginning=one.reply.strip()[:300])
        for one in lost
    )
    return evidence.UnusableReplies(asked=len(lost) + answered, replies=replied) if lost else None


def _redacted(record: evidence.ProposalRecord, guard: GuardContext) -> evidence.ProposalRecord:
    # what the guard keeps out of the skill must not enter git in the record
    redact = partial(without_secrets, keys=guard.keys)
    told = redacted_values(record.model_dump(mode="json"), redact)
    return evidence.ProposalRecord.model_validate(told)


# The learning rate, where the optimizer chooses it.

_INTEGER = re.compile(r"-?\d{1,9}", re.ASCII)


async def decide_learning_rate(
    skill: str,
    edits: Sequence[replies.Item],
    rollout: evidence.RolloutRecord,
    *,
    mode: UpdateMode[replies.Item],
    chat: OptimizerChat,
) -> tuple[evidence.LearningRateRecord, Lost | None]:
    """Let the optimizer choose how many of ``edits`` to apply; none if its reply is unusable."""
    chat.observer(StageStarted("step size"))
    user = library.joined(
        library.meta_skill(chat.meta_skill),
        library.current_skill(skill),
        _training_means(rollout, len(edits), mode.noun),
        library.section(f"Proposed items ({len(edits)} total)", mode.pool(edits)),
        library.previous_steps(chat.step_buffer),
    )
    available = len(edits)
    reply = await chat.ask(
        "learning rate",
        user,
        partial(_parse_learning_rate, available),
        replies.LEARNING_RATE,
        prompt="lr_autonomous",
        vital=True,
    )
    lost = reply if isinstance(reply, Lost) else None
    if isinstance(reply, Lost):
        reply = evidence.LearningRateRecord(
            learning_rate=0,
            available=available,
            fallback=True,
            reasoning=f"no usable answer: {reply.error.message}",
        )
    chat.observer(StageFinished("step size", str(reply.learning_rate)))
    return reply, lost


def _training_means(means: evidence.RolloutRecord, count: int, noun: str) -> str:
    made = means.n + means.errors
    share = means.n / made if made else 0.0
    lost = (
        f"rollout_errors: {means.errors} of {made} attempts could not be measured; they count "
        f"as failed here. Without them: hard {means.hard:.6f}, soft {means.soft:.6f}"
    )
    facts = (
        f"rollout_n: {made}",
        f"rollout_hard: {means.hard * share:.6f}",
        f"rollout_soft: {means.soft * share:.6f}",
        *([lost] if means.errors else []),
        f"proposed_update_items: {count}",
        f"update_item_type: {noun}",
    )
    return library.section("Evidence", "\n".join(f"- {fact}" for fact in facts))


def _parse_learning_rate(available: int, text: str) -> evidence.LearningRateRecord:
    reply = replies.parse_as(replies.LearningRateShape, text)
    if (number := coerced(reply.learning_rate)) is None:
        raise replies.WireError("`learning_rate`: expected a whole number, 0 or more.")
    return evidence.LearningRateRecord(
        learning_rate=min(number, available),
        raw=number,
        available=available,
        clamped=number > available,
        reasoning=reply.reasoning,
        confidence=reply.confidence,
        risk_notes=reply.risk_notes,
    )


def coerced(value: object) -> int | None:
    """The first whole number in a learning rate, in whatever form it is written, at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return max(0, value)
    found = _INTEGER.search(f"{value:f}" if isinstance(value, float) else value)  # none in "inf"
    return max(0, int(found[0])) if found else None
