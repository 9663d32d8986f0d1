"""Export a run as a SkillOpt run folder, for SkillOpt's tools (reference 1.0, 1.14, 1.15)."""

import json
from collections.abc import Iterator, Mapping

from skillopt_ci import __version__
from skillopt_ci.integrations.skillopt.config import FLAT_NAMES, MOVED, SHARED
from skillopt_ci.ledger.evidence import (
    EditRecord,
    LearningRateRecord,
    Measurement,
    ProposalRecord,
    SuggestionRecord,
)
from skillopt_ci.ledger.records import StepRecord
from skillopt_ci.ledger.summary import Moment, Summary, comparable_from, timeline
from skillopt_ci.model.types import Usage
from skillopt_ci.report.view import RunView
from skillopt_ci.util import grouped, pick

_PREVIEW = 200
_PAYLOAD: Mapping[str, str] = {"patch": "edits", "rewrite_from_suggestions": "revise_suggestions"}
_FLAT = {key: flat for flat, (home, key) in {**FLAT_NAMES, **MOVED}.items() if home in SHARED}
#: SkillOpt's backends by provider; it knows other providers as servers of OpenAI's protocol.
_BACKENDS: Mapping[str, str] = {
    **dict.fromkeys(("openai", "azure"), "openai_chat"),
    "anthropic": "claude_chat",
    "claude-code": "claude_code_exec",
    "codex": "codex_exec",
    "command": "command",
    "copilot": "copilot_chat",
    "cursor": "cursor_exec",
    "minimax": "minimax_chat",
    "simulated": "simulated",
    "vllm": "qwen_chat",
}
_COUNTS = "calls prompt_tokens completion_tokens"
_SELECTION = "selection_hard=measurement.whole.hard selection_soft=measurement.whole.soft"
_DECISION = f"{_SELECTION} gate_metric=metric action candidate_gate_score=score_after"

#: Names in the run folder, each with its text, JSON value or (``.jsonl``) rows.
_Files = Iterator[tuple[str, object]]


def skillopt_files(evidence: RunView, root: str) -> dict[str, str]:
    """The files of the run folder by relative path; ``root`` is where the folder will be."""
    return {name: _written(name, content) for name, content in _files(evidence, root)}


def _written(name: str, content: object) -> str:
    if name.endswith(".md"):
        return str(content)
    if isinstance(content, list) and name.endswith(".jsonl"):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _files(evidence: RunView, root: str) -> _Files:
    *_, last = timeline(evidence.history)
    state = evidence.state
    yield "config.json", flat_config(evidence)
    runtime = {
        "last_completed_step": state.step,
        "current_skill_path": f"{root}/{_skill_file(state.step)}",
        **pick(last, "current_score current_origin"),
        "best_skill_path": f"{root}/best_skill.md",
        **pick(state.best, "best_score=measurement.score best_step=step"),
        "best_origin": last.best_origin,
    }
    yield "runtime_state.json", _known(runtime)
    # The last event of a step has the step's skill.
    for step, key in {entry.step: entry.skill_sha256 for entry in evidence.history}.items():
        if key in evidence.texts:
            yield _skill_file(step), evidence.texts[key]
    if (best := evidence.texts.get(state.best.sha256)) is not None:
        yield "best_skill.md", best
    if evidence.baseline is not None:
        yield "selection_eval_baseline/results.jsonl", _measured_rows(evidence.baseline)
    yield from _steps(evidence)
    yield from _boundaries(evidence)
    if evidence.summary is not None:
        yield from _end(evidence, evidence.summary)


def _known(facts: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in facts.items() if value is not None}


def _measured_rows(measurement: Measurement) -> list[dict[str, object]]:
    return [
        {"id": task, "hard": hard, "soft": soft} for task, (hard, soft) in measurement.tasks.items()
    ]


def _skill_file(step: int) -> str:
    return f"skills/skill_v{step:04}.md"


def flat_config(evidence: RunView) -> dict[str, object]:
    """The configuration under SkillOpt's flat names; empty if an old version recorded none."""
    if (basis := evidence.state.basis) is None:
        return {}
    parts = {key: part for key, part in basis.config.items() if isinstance(part, dict)}
    flat: dict[str, object] = {"env": evidence.state.run, "skill_init": evidence.state.skill}
    for section in SHARED:
        flat |= {_FLAT.get(key, key): one for key, one in parts.get(section, {}).items()}
    for role, settings in parts.get("model", {}).items():
        if isinstance(settings, Mapping):
            backend = _BACKENDS.get(str(settings["provider"]), "openai_compatible")
            flat |= {f"{role}_model": settings["model"], f"{role}_backend": backend}
    return {
        **flat,
        **dict.fromkeys(("train_size", "samples_per_epoch"), basis.train_size),
        "steps_per_epoch": basis.steps_per_epoch,
        "batches_per_epoch": basis.steps_per_epoch * int(str(parts["train"]["accumulation"])),
    }


def _steps(evidence: RunView) -> _Files:
    kinds = ("step", "notes")
    moments = {one.entry.step: one for one in timeline(evidence.history) if one.entry.kind in kinds}
    done = [(record, moments[record.step]) for record in evidence.steps if record.step in moments]
    entries = [_step_record(evidence, record, moment) for record, moment in done]
    yield "history.json", entries
    for (record, _), entry in zip(done, entries, strict=True):
        for name, content in _step_files(evidence, record, entry):
            yield f"steps/step_{record.step:04}/{name}", content
    if rates := [
        {**pick(record, "step epoch"), **_lr_decision(rate)}
        for record, _ in done
        if (rate := record.proposal.learning_rate)
    ]:
        yield "lr_history.jsonl", rates


def _step_record(evidence: RunView, record: StepRecord, moment: Moment) -> dict[str, object]:
    text = evidence.texts.get(record.proposal.skill_after)
    current = evidence.texts.get(moment.entry.skill_sha256)
    return _known(
        {
            **pick(record, "step epoch"),
            "step_in_epoch": record.step_in_epoch - 1,  # SkillOpt counts from 0
            "timing": {},
            "tokens": _tokens(record),
            **_proposal(record.proposal),
            "candidate_skill_len": None if text is None else len(text),
            **pick(record.decision, _DECISION),
            **pick(moment, "current_score best_score best_step current_origin best_origin"),
            "skill_len": None if current is None else len(current),
            "wall_time_s": evidence.place(record.step).seconds,
        }
    )


def _tokens(record: StepRecord) -> dict[str, dict[str, object]]:
    """Usage by stage; usage booked after the candidate was made counts as selection."""
    stages = record.proposal.usage
    rest: dict[str, object] = {
        key: getattr(record.usage, key) - sum(getattr(one, key) for one in stages.values())
        for key in _COUNTS.split()
    }
    booked = {stage: pick(used, _COUNTS) for stage, used in stages.items()}
    return {**booked, "selection": rest} if rest["calls"] else booked


def _proposal(proposal: ProposalRecord) -> dict[str, object]:
    items = proposal.edits or proposal.suggestions
    rate, notes = proposal.learning_rate, proposal.notes
    control_mode = "none" if proposal.edit_budget is None else "fixed"
    applied, total = sum(edit.applied for edit in proposal.edits), len(proposal.edits)
    counts = {"total": total, "applied": applied, "skipped": total - applied, "errors": 0}
    batch_names = "batch_seed=seed n_envs=n hard soft n_failure_patches n_success_patches"
    return {
        **pick(proposal.rollout, "rollout_hard=hard rollout_soft=soft rollout_n=n"),
        "accumulation_batches": [
            {"batch_idx": index, **pick(batch, batch_names)}
            for index, batch in enumerate(proposal.batches)
        ],
        "n_patches": proposal.n_failure_patches + proposal.n_success_patches,
        **pick(proposal, "n_failure_patches n_success_patches n_edits_merged"),
        "n_edits_ranked": len(items) if proposal.mode in _PAYLOAD else None,
        "edit_budget": proposal.edit_budget,
        "lr_control_mode": control_mode if rate is None else "autonomous",
        "lr_decision": None if rate is None else _lr_decision(rate),
        "support_counts": [one.support_count for one in items],
        "candidate_hash": proposal.skill_after[:16],
        "rewrite_change_summary": list(proposal.change_summary) or None,
        "edit_apply_summary": counts if proposal.mode == "patch" else None,
        "n_execution_lapse_notes": notes and notes.proposed,
        "n_appendix_notes_added": notes and len(notes.added),
        "n_appendix_notes_total": notes and len(notes.appendix),
        "n_appendix_notes_consolidated": len(notes.appendix)
        if notes and notes.consolidated_from
        else None,
    }


def _lr_decision(record: LearningRateRecord) -> dict[str, object]:
    return _known(
        pick(
            record,
            "learning_rate raw_learning_rate=raw available_update_items=available clamped fallback "
            "reasoning confidence risk_notes",
        )
    )


def _step_files(evidence: RunView, record: StepRecord, entry: Mapping[str, object]) -> _Files:
    proposal, decision = record.proposal, record.decision
    yield "step_record.json", entry
    rows = [
        {**pick(task, "id hard soft task_type"), "fail_reason": task.reason if task.failed else ""}
        for task in proposal.rollout.tasks
        if task.status.measured
    ]
    yield "rollout/results.jsonl", rows
    if decision is not None and not decision.action.startswith("skip"):
        rejected = {
            **pick(decision, "score_before score_after"),
            "rejected_edits": [*map(_item, proposal.applied_edits or proposal.suggestions)],
        }
        digest = {
            "step": record.step,
            "action": decision.action,
            "n_total": proposal.rollout.n,
            "n_fail": sum(task.failed for task in proposal.rollout.tasks),
            "failure_patterns": [
                pick(one, "pattern=description count task_ids") for one in proposal.patterns
            ],
            **({} if decision.stays else rejected),
        }
        yield "trajectory_digest.json", digest
    if proposal.skill_after in evidence.texts:
        yield "candidate_skill.md", evidence.texts[proposal.skill_after]
    yield from _payload_files(proposal)
    if proposal.notes is not None:
        yield "appendix_notes.json", pick(proposal.notes, "added appendix_notes=appendix")
    if proposal.learning_rate is not None:
        yield "lr_decision.json", _lr_decision(proposal.learning_rate)
    if decision is not None and decision.measurement and decision.reused_from is None:
        yield "selection_eval/results.jsonl", _measured_rows(decision.measurement)


def _payload_files(proposal: ProposalRecord) -> _Files:
    key, items = _PAYLOAD.get(proposal.mode), [*map(_item, proposal.edits or proposal.suggestions)]
    if key is None or not items:
        return
    ranked = {"reasoning": proposal.reasoning, key: items}
    if proposal.selection == "untouched":
        yield "merged_patch.json", ranked
    yield "ranked_edits.json", ranked
    if proposal.mode == "patch":
        report = [
            {
                **pick(edit, "op status"),
                "target": edit.target[:_PREVIEW],
                "content_preview": edit.content[:_PREVIEW],
                "index": index,
            }
            for index, edit in enumerate(proposal.edits, start=1)
        ]
        yield "edit_apply_report.json", report
    elif proposal.change_summary:
        yield "rewrite_result.json", {"change_summary": proposal.change_summary}


def _item(item: EditRecord | SuggestionRecord) -> dict[str, object]:
    return item.model_dump(mode="json", exclude={"status", "reason"})


def _boundaries(evidence: RunView) -> _Files:
    for record in evidence.epochs:
        if (slow := record.slow_update) is not None:
            folder = f"slow_update/epoch_{record.epoch:02}"
            decision = record.decision if slow.action == "propose" else None
            result = {
                **pick(slow, "reasoning slow_update_content=content"),
                **pick(record, "prev_hard=previous_hard curr_hard=current_hard"),
                "candidate_hash": record.skill_after[:16],
                "update_origin": "slow_update_momentum",
                "action": (decision or slow).action,
                **pick(decision, _SELECTION),
            }
            yield f"{folder}/slow_result.json", _known(result)
            if record.pairs:
                pairs = [
                    {
                        **pick(pair, "id category"),
                        "prev": pick(pair.previous, "hard soft"),
                        "curr": pick(pair.current, "hard soft"),
                    }
                    for pair in record.pairs
                ]
                yield f"{folder}/comparison_pairs.json", pairs
            if record.changed and record.skill_after in evidence.texts:
                yield f"{folder}/candidate_skill.md", evidence.texts[record.skill_after]
        if record.meta_skill is not None:
            file = f"meta_skill/epoch_{record.epoch:02}/meta_skill_result.json"
            yield file, pick(record.meta_skill, "action reasoning meta_skill_content=content")


def _end(evidence: RunView, summary: Summary) -> _Files:
    state = evidence.state
    yield "summary.json", _run_summary(evidence, summary)
    if state.current.sha256 != state.best.sha256 or summary.promoted:
        yield "final_selection_eval/results.jsonl", _measured_rows(state.current.measurement)
    for folder, skill in (
        ("test_eval_baseline", summary.initial),
        ("test_eval", summary.best),
        ("test_eval_final", summary.last),
    ):
        if skill.test is not None:
            yield f"{folder}/results.jsonl", _measured_rows(skill.test)
            kinds = {**skill.by_type, "overall": skill.test}
            counts = {kind: pick(found, "total=n hard_acc=hard") for kind, found in kinds.items()}
            yield f"{folder}/summary.json", counts


def _run_summary(evidence: RunView, summary: Summary) -> dict[str, object]:
    epoch_names = (
        "epoch accepts rejects skips best_score_at_epoch_end=best_score "
        "current_score_at_epoch_end=current_score"
    )
    steps = grouped((one.epoch, one.step) for one in evidence.history if one.kind == "step")
    *_, last = timeline(evidence.history)
    # since the tasks or the way of measuring changed, the initial skill's score does not compare
    first = None if comparable_from(evidence.history) else evidence.baseline
    return _known(
        {
            "version": f"skillopt-ci-{__version__}",
            "config": flat_config(evidence),
            "baseline_selection_hard": first and first.hard,
            **pick(
                evidence.state,
                "best_selection_hard=best.measurement.hard "
                "final_selection_hard=current.measurement.hard "
                "final_selection_soft=current.measurement.soft best_step=best.step",
            ),
            **pick(last, "current_origin best_origin"),
            "total_steps": summary.total_steps,
            "total_accepts": sum(epoch.accepts for epoch in summary.epochs),
            "total_rejects": sum(epoch.rejects for epoch in summary.epochs),
            "total_skips": sum(epoch.skips for epoch in summary.epochs),
            "epoch_stats": [
                {**pick(epoch, epoch_names), "steps": steps.get(epoch.epoch, [])}
                for epoch in summary.epochs
            ],
            **pick(
                summary,
                "baseline_test_hard=initial.test.hard baseline_test_soft=initial.test.soft "
                "test_hard=best.test.hard test_soft=best.test.soft "
                "final_test_hard=last.test.hard final_test_soft=last.test.soft "
                "test_delta_hard=best_gain.mean final_test_delta_hard=last_gain.mean",
            ),
            "total_wall_time_s": sum(
                evidence.place(one.step).seconds or 0 for one in evidence.steps
            )
            or None,
            "token_summary": {
                **{stage: _counted(used) for stage, used in summary.stages.items()},
                "_total": _counted(summary.usage),
            },
        }
    )


def _counted(used: Usage) -> dict[str, object]:
    return {**pick(used, _COUNTS), "total_tokens": used.tokens}
