"""One step as SkillOpt writes it: its record (reference 1.15) and the files of its folder."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from skillopt_ci.ledger.records.measurement import Measurement
from skillopt_ci.ledger.records.proposal import (
    EditRecord,
    LearningRateRecord,
    NotesRecord,
    ProposalRecord,
    SuggestionRecord,
)
from skillopt_ci.ledger.records.step import Decision, StepRecord
from skillopt_ci.ledger.records.usage import UsageRecord
from skillopt_ci.report.skillopt_evidence import Evidence, known, short_hash
from skillopt_ci.report.timeline import Moment

_PREVIEW = 200
_PAYLOAD: Mapping[str, str] = {
    "patch": "edits",
    "rewrite_from_suggestions": "revise_suggestions",
}


def step_record(evidence: Evidence, record: StepRecord, moment: Moment) -> dict[str, object]:
    """An entry of ``history.json``; what is not known is left out."""
    text = evidence.texts.get(record.proposal.skill_after)
    current = evidence.texts.get(moment.skill_sha256)
    return known(
        {
            "step": record.step,
            "epoch": record.epoch,
            "step_in_epoch": record.step_in_epoch,
            "timing": {},
            "tokens": tokens(record),
            **_rollout(record.proposal),
            **_proposal(record.proposal),
            "candidate_skill_len": None if text is None else len(text),
            **({} if record.decision is None else _decision(record.decision)),
            "current_score": moment.current_score,
            "best_score": moment.best_score,
            "best_step": moment.best_step,
            "current_origin": moment.current_origin,
            "best_origin": moment.best_origin,
            "skill_len": None if current is None else len(current),
            "wall_time_s": evidence.seconds.get(record.step),
        }
    )


def step_files(
    evidence: Evidence, record: StepRecord, entry: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """The files of ``steps/step_NNNN``, by their names; ``entry`` is the step's record."""
    proposal, decision = record.proposal, record.decision
    yield "step_record.json", dumped(entry)
    yield "rollout/results.jsonl", json_lines(_results(record))
    if decision is not None and not decision.action.startswith("skip"):
        yield "trajectory_digest.json", dumped(_digest(record, decision))
    if proposal.skill_after in evidence.texts:
        yield "candidate_skill.md", evidence.texts[proposal.skill_after]
    yield from _payload_files(proposal)
    if proposal.notes is not None:
        yield "appendix_notes.json", dumped(_notes(proposal.notes))
    if proposal.learning_rate is not None:
        yield "lr_decision.json", dumped(lr_decision(proposal.learning_rate))
    if decision is not None and decision.measurement and decision.reused_from is None:
        yield "selection_eval/results.jsonl", measured_lines(decision.measurement)


def tokens(record: StepRecord) -> dict[str, dict[str, int]]:
    """Usage by stage; what is not booked before the candidate was spent on the selection tasks."""
    stages = record.proposal.usage
    rest = {
        key: getattr(record.usage, key) - sum(getattr(one, key) for one in stages.values())
        for key in ("calls", "prompt_tokens", "completion_tokens")
    }
    booked = {stage: token_counts(used) for stage, used in stages.items()}
    return {**booked, "selection": rest} if rest["calls"] else booked


def token_counts(used: UsageRecord) -> dict[str, int]:
    """Calls and tokens of one stage."""
    return {
        "calls": used.calls,
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
    }


def lr_decision(record: LearningRateRecord) -> dict[str, object]:
    """How the optimizer chose the number of changes."""
    return known(
        {
            "learning_rate": record.learning_rate,
            "raw_learning_rate": record.raw,
            "available_update_items": record.available,
            "clamped": record.clamped,
            "fallback": record.fallback,
            "reasoning": record.reasoning,
            "confidence": record.confidence,
            "risk_notes": list(record.risk_notes),
        }
    )


def measured_lines(measurement: Measurement) -> str:
    """A measurement as ``results.jsonl``; tasks that could not be measured have no line."""
    return json_lines(
        {"id": task, "hard": hard, "soft": soft} for task, (hard, soft) in measurement.tasks.items()
    )


def dumped(value: object) -> str:
    """JSON as SkillOpt writes it."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def json_lines(rows: Iterable[Mapping[str, object]]) -> str:
    """One object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _rollout(proposal: ProposalRecord) -> dict[str, object]:
    rollout = proposal.rollout
    return {
        "rollout_hard": rollout.hard,
        "rollout_soft": rollout.soft,
        "rollout_n": rollout.n,
        "accumulation_batches": [
            {
                "batch_idx": index,
                "batch_seed": batch.seed,
                "n_envs": batch.n,
                "hard": batch.hard,
                "soft": batch.soft,
                "n_failure_patches": batch.n_failure_patches,
                "n_success_patches": batch.n_success_patches,
            }
            for index, batch in enumerate(proposal.batches)
        ],
    }


def _proposal(proposal: ProposalRecord) -> dict[str, object]:
    items = _items(proposal)
    rate = proposal.learning_rate
    return {
        "n_patches": proposal.n_failure_patches + proposal.n_success_patches,
        "n_failure_patches": proposal.n_failure_patches,
        "n_success_patches": proposal.n_success_patches,
        "n_edits_merged": proposal.n_edits_merged,
        "n_edits_ranked": len(items) if proposal.mode in _PAYLOAD else None,
        "edit_budget": proposal.edit_budget,
        "lr_control_mode": _control_mode(proposal),
        "lr_decision": None if rate is None else lr_decision(rate),
        "support_counts": [one.support_count for one in items],
        "candidate_hash": short_hash(proposal.skill_after),
        "rewrite_change_summary": list(proposal.change_summary) or None,
        "edit_apply_summary": _apply_summary(proposal.edits) if proposal.mode == "patch" else None,
        **({} if proposal.notes is None else _note_counts(proposal.notes)),
    }


def _note_counts(notes: NotesRecord) -> dict[str, object]:
    return {
        "n_execution_lapse_notes": notes.proposed,
        "n_appendix_notes_added": len(notes.added),
        "n_appendix_notes_total": len(notes.appendix),
        "n_appendix_notes_consolidated": len(notes.appendix) if notes.consolidated_from else None,
    }


def _notes(notes: NotesRecord) -> dict[str, object]:
    return {"added": list(notes.added), "appendix_notes": list(notes.appendix)}


def _control_mode(proposal: ProposalRecord) -> str:
    if proposal.learning_rate is not None:
        return "autonomous"
    return "none" if proposal.edit_budget is None else "fixed"


def _apply_summary(edits: Sequence[EditRecord]) -> dict[str, int]:
    applied = sum(edit.applied for edit in edits)
    return {
        "total": len(edits),
        "applied": applied,
        "skipped": len(edits) - applied,
        "errors": 0,
    }


def _decision(decision: Decision) -> dict[str, object]:
    measured = decision.measurement
    return {
        "selection_hard": None if measured is None else measured.hard,
        "selection_soft": None if measured is None else measured.soft,
        "gate_metric": decision.metric,
        "candidate_gate_score": decision.score_after,
        "action": decision.action,
    }


def _results(record: StepRecord) -> Iterator[dict[str, object]]:
    for task in record.proposal.rollout.tasks:
        if task.status.measured:
            yield {
                "id": task.id,
                "hard": task.hard,
                "soft": task.soft,
                "fail_reason": task.reason if task.failed else "",
                "task_type": task.task_type,
            }


def _digest(record: StepRecord, decision: Decision) -> dict[str, object]:
    proposal = record.proposal
    rejected = {
        "score_before": decision.score_before,
        "score_after": decision.score_after,
        "rejected_edits": [_item(edit) for edit in proposal.edits if edit.applied],
    }
    return {
        "step": record.step,
        "action": decision.action,
        "n_total": proposal.rollout.n,
        "n_fail": sum(task.failed for task in proposal.rollout.tasks),
        "failure_patterns": [
            {
                "pattern": pattern.description,
                "count": pattern.count,
                "task_ids": list(pattern.task_ids),
            }
            for pattern in proposal.patterns
        ],
        **({} if decision.stays else rejected),
    }


def _payload_files(proposal: ProposalRecord) -> Iterator[tuple[str, str]]:
    key, items = _PAYLOAD.get(proposal.mode), [_item(one) for one in _items(proposal)]
    if key is None or not items:
        return
    ranked = dumped({"reasoning": proposal.reasoning, key: items})
    if proposal.selection == "untouched":
        yield "merged_patch.json", ranked
    yield "ranked_edits.json", ranked
    if proposal.mode == "patch":
        yield "edit_apply_report.json", dumped(_apply_report(proposal.edits))
    elif proposal.change_summary:
        yield "rewrite_result.json", dumped({"change_summary": list(proposal.change_summary)})


def _apply_report(edits: Sequence[EditRecord]) -> list[dict[str, object]]:
    return [
        {
            "op": edit.op,
            "target": edit.target[:_PREVIEW],
            "content_preview": edit.content[:_PREVIEW],
            "status": edit.status,
            "index": index,
        }
        for index, edit in enumerate(edits, start=1)
    ]


def _items(proposal: ProposalRecord) -> Sequence[EditRecord | SuggestionRecord]:
    return proposal.edits or proposal.suggestions


def _item(item: EditRecord | SuggestionRecord) -> dict[str, object]:
    return item.model_dump(mode="json", exclude={"status", "reason"})
