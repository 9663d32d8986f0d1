"""All that is known of a run, as the export needs it."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from skillopt_ci import __version__
from skillopt_ci.ledger.records import (
    BoundaryRecord,
    Decision,
    EditRecord,
    FinalSkill,
    LearningRateRecord,
    Measurement,
    NotesRecord,
    PairRecord,
    ProposalRecord,
    StepRecord,
    SuggestionRecord,
    Summary,
    UsageRecord,
)
from skillopt_ci.ledger.timeline import Moment
from skillopt_ci.report.view import RunRecords


def short_hash(sha256: str) -> str:
    """SkillOpt's name for a skill text."""
    return sha256[:16]


def known(facts: Mapping[str, object]) -> dict[str, object]:
    """``facts`` without those that nobody knows (None)."""
    return {key: value for key, value in facts.items() if value is not None}


# One step as SkillOpt writes it: its record (reference 1.15) and the files of its folder.

_PREVIEW = 200
_PAYLOAD: Mapping[str, str] = {
    "patch": "edits",
    "rewrite_from_suggestions": "revise_suggestions",
}


def step_record(evidence: RunRecords, record: StepRecord, moment: Moment) -> dict[str, object]:
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
    evidence: RunRecords, record: StepRecord, entry: Mapping[str, object]
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


# The run as a whole as SkillOpt writes it: configuration, resume pointer, summary.

_SECTIONS = ("train", "gradient", "optimizer", "evaluation")
_FLAT_NAMES: Mapping[str, str] = {
    "learning_rate": "edit_budget",
    "min_learning_rate": "min_edit_budget",
    "trace_to_optimizer": "codex_trace_to_optimizer",
}
_BACKENDS: Mapping[str, str] = {"openai": "openai_chat"}


def flat_config(evidence: RunRecords) -> dict[str, object]:
    """The configuration under SkillOpt's flat names, derived values included.

    Empty if the run was last written by a version that did not record it.
    """
    config, basis = evidence.config, evidence.state.basis
    if basis is None:
        return {}
    flat: dict[str, object] = {"env": evidence.state.run, "skill_init": evidence.state.skill}
    for section in _SECTIONS:
        flat |= {_FLAT_NAMES.get(key, key): value for key, value in _part(config, section).items()}
    for role, settings in _part(config, "model").items():
        if isinstance(settings, Mapping):
            provider = str(settings["provider"])
            flat[f"{role}_model"] = settings["model"]
            flat[f"{role}_backend"] = _BACKENDS.get(provider, provider)
    return {**flat, **_derived(basis.train_size, _part(config, "train"))}


def runtime_state(evidence: RunRecords, root: str) -> dict[str, object]:
    """The resume pointer; ``root`` is where the folder will stand."""
    last = evidence.moments[-1]
    return known(
        {
            "last_completed_step": evidence.state.step,
            "current_skill_path": f"{root}/{skill_file(evidence.state.step)}",
            "current_score": last.current_score,
            "current_origin": last.current_origin,
            "best_skill_path": f"{root}/best_skill.md",
            "best_score": evidence.state.best.measurement.score,
            "best_step": evidence.state.best.step,
            "best_origin": last.best_origin,
        }
    )


def run_summary(evidence: RunRecords, summary: Summary) -> dict[str, object]:
    """``summary.json`` of a run that was finished."""
    last, current = evidence.moments[-1], evidence.state.current.measurement
    epochs = summary.epochs
    return known(
        {
            "version": f"skillopt-ci-{__version__}",
            "config": flat_config(evidence),
            "baseline_selection_hard": evidence.baseline and evidence.baseline.hard,
            "best_selection_hard": evidence.state.best.measurement.hard,
            "final_selection_hard": current.hard,
            "final_selection_soft": current.soft,
            **_origins(evidence, last),
            "total_steps": summary.total_steps,
            "total_accepts": sum(epoch.accepts for epoch in epochs),
            "total_rejects": sum(epoch.rejects for epoch in epochs),
            "total_skips": sum(epoch.skips for epoch in epochs),
            "epoch_stats": _epoch_stats(summary),
            **_tests(summary),
            "total_wall_time_s": sum(evidence.seconds.values()) if evidence.seconds else None,
            "token_summary": _token_summary(summary),
        }
    )


def type_summary(skill: FinalSkill) -> dict[str, dict[str, float]]:
    """``summary.json`` of a test folder: right answers by task type, and overall."""
    by_type = {
        kind: {"total": found.n, "hard_acc": found.hard} for kind, found in skill.by_type.items()
    }
    if skill.test is None:
        return by_type
    return {**by_type, "overall": {"total": skill.test.n, "hard_acc": skill.test.hard}}


def skill_file(step: int) -> str:
    """Where the current skill after a step stands."""
    return f"skills/skill_v{step:04}.md"


def _origins(evidence: RunRecords, last: Moment) -> dict[str, object]:
    return {
        "best_step": evidence.state.best.step,
        "current_origin": last.current_origin,
        "best_origin": last.best_origin,
    }


def _part(config: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


def _derived(train_size: int, train: Mapping[str, object]) -> dict[str, object]:
    batch, accumulation = (int(str(train[key])) for key in ("batch_size", "accumulation"))
    steps = math.ceil(train_size / (batch * accumulation))
    return {
        "train_size": train_size,
        "steps_per_epoch": steps,
        "batches_per_epoch": steps * accumulation,
    }


def _epoch_stats(summary: Summary) -> list[dict[str, object]]:
    return [
        {
            "epoch": one.epoch,
            "steps": one.steps,
            "accepts": one.accepts,
            "rejects": one.rejects,
            "skips": one.skips,
            "best_score_at_epoch_end": one.best_score,
            "current_score_at_epoch_end": one.current_score,
        }
        for one in summary.epochs
    ]


def _tests(summary: Summary) -> dict[str, object]:
    named = {"baseline_test": summary.initial, "test": summary.best, "final_test": summary.last}
    scores = {
        f"{name}_{kind}": skill.test and getattr(skill.test, kind)
        for name, skill in named.items()
        for kind in ("hard", "soft")
    }
    return {
        **scores,
        "test_delta_hard": summary.best_gain and summary.best_gain.mean,
        "final_test_delta_hard": summary.last_gain and summary.last_gain.mean,
    }


def _token_summary(summary: Summary) -> dict[str, dict[str, int]]:
    stages = {stage: _counted(used) for stage, used in summary.stages.items()}
    return {**stages, "_total": _counted(summary.usage)}


def _counted(used: UsageRecord) -> dict[str, int]:
    return {**token_counts(used), "total_tokens": used.usage().tokens}


# A run as SkillOpt's run folder, so that its tools can read it (reference 1.0, 1.14, 1.15).


def skillopt_files(evidence: RunRecords, root: str) -> dict[str, str]:
    """The files of the run folder by their paths in it; ``root`` is where it will stand."""
    return dict(
        [
            ("config.json", dumped(flat_config(evidence))),
            ("runtime_state.json", dumped(runtime_state(evidence, root))),
            *((skill_file(step), text) for step, text in evidence.skills().items()),
            *_best(evidence),
            *_baseline(evidence),
            *_steps(evidence),
            *_boundaries(evidence),
            *_end(evidence),
        ]
    )


def _best(evidence: RunRecords) -> Iterator[tuple[str, str]]:
    text = evidence.texts.get(evidence.state.best.sha256)
    if text is not None:
        yield "best_skill.md", text


def _baseline(evidence: RunRecords) -> Iterator[tuple[str, str]]:
    if evidence.baseline is not None:
        yield "selection_eval_baseline/results.jsonl", measured_lines(evidence.baseline)


def _steps(evidence: RunRecords) -> Iterator[tuple[str, str]]:
    kinds = ("step", "notes")
    moments = {one.entry.step: one for one in evidence.moments if one.entry.kind in kinds}
    done = [(evidence.steps[step], at) for step, at in moments.items() if step in evidence.steps]
    entries = [step_record(evidence, record, moment) for record, moment in done]
    yield "history.json", dumped(entries)
    for (record, _), entry in zip(done, entries, strict=True):
        for name, text in step_files(evidence, record, entry):
            yield f"steps/step_{record.step:04}/{name}", text
    rates = [record.proposal.learning_rate for record, _ in done if record.proposal.learning_rate]
    if rates:
        yield "lr_history.jsonl", json_lines(lr_decision(rate) for rate in rates)


def _boundaries(evidence: RunRecords) -> Iterator[tuple[str, str]]:
    for epoch, record in evidence.boundaries.items():
        if record.slow_update is not None:
            folder = f"slow_update/epoch_{epoch:02}"
            yield f"{folder}/slow_result.json", dumped(_slow_result(record))
            if record.pairs:
                yield f"{folder}/comparison_pairs.json", dumped(list(map(_pair, record.pairs)))
            if record.changed and record.skill_after in evidence.texts:
                yield f"{folder}/candidate_skill.md", evidence.texts[record.skill_after]
        if record.meta_skill is not None:
            result = {
                "action": record.meta_skill.action,
                "reasoning": record.meta_skill.reasoning,
                "meta_skill_content": record.meta_skill.content,
            }
            yield f"meta_skill/epoch_{epoch:02}/meta_skill_result.json", dumped(result)


def _end(evidence: RunRecords) -> Iterator[tuple[str, str]]:
    summary = evidence.summary
    if summary is None:
        return
    yield "summary.json", dumped(run_summary(evidence, summary))
    if evidence.state.current.sha256 != evidence.state.best.sha256 or summary.promoted:
        lines = measured_lines(evidence.state.current.measurement)
        yield "final_selection_eval/results.jsonl", lines
    folders = {
        "test_eval_baseline": summary.initial,
        "test_eval": summary.best,
        "test_eval_final": summary.last,
    }
    for folder, skill in folders.items():
        if skill.test is not None:
            yield f"{folder}/results.jsonl", measured_lines(skill.test)
            yield f"{folder}/summary.json", dumped(type_summary(skill))


def _slow_result(record: BoundaryRecord) -> dict[str, object]:
    slow, decision = record.slow_update, record.decision
    measured = None if decision is None else decision.measurement
    return known(
        {
            "reasoning": slow and slow.reasoning,
            "slow_update_content": slow and slow.content,
            "prev_hard": record.previous_hard,
            "curr_hard": record.current_hard,
            "candidate_hash": short_hash(record.skill_after),
            "update_origin": "slow_update_momentum",
            "action": _slow_action(record),
            "selection_hard": measured and measured.hard,
            "selection_soft": measured and measured.soft,
        }
    )


def _slow_action(record: BoundaryRecord) -> str | None:
    if record.slow_update is None:
        return None
    proposed = record.slow_update.action == "propose" and record.decision is not None
    return record.decision.action if proposed and record.decision else record.slow_update.action


def _pair(pair: PairRecord) -> dict[str, object]:
    return {
        "id": pair.id,
        "category": pair.category,
        "prev": {"hard": pair.previous.hard, "soft": pair.previous.soft},
        "curr": {"hard": pair.current.hard, "soft": pair.current.soft},
    }
