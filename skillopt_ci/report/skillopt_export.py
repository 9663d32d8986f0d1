"""A run as SkillOpt's run folder, so that its tools can read it (reference 1.0, 1.14, 1.15).

Only what is known is written: nothing is made up to fill a field.
"""

from collections.abc import Iterator

from skillopt_ci.ledger.records.epoch import BoundaryRecord, PairRecord
from skillopt_ci.report.skillopt_evidence import Evidence, known, short_hash
from skillopt_ci.report.skillopt_step import (
    dumped,
    json_lines,
    lr_decision,
    measured_lines,
    step_files,
    step_record,
)
from skillopt_ci.report.skillopt_summary import (
    flat_config,
    run_summary,
    runtime_state,
    skill_file,
    type_summary,
)


def skillopt_files(evidence: Evidence, root: str) -> dict[str, str]:
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


def _best(evidence: Evidence) -> Iterator[tuple[str, str]]:
    text = evidence.texts.get(evidence.state.best.sha256)
    if text is not None:
        yield "best_skill.md", text


def _baseline(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.baseline is not None:
        yield "selection_eval_baseline/results.jsonl", measured_lines(evidence.baseline)


def _steps(evidence: Evidence) -> Iterator[tuple[str, str]]:
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


def _boundaries(evidence: Evidence) -> Iterator[tuple[str, str]]:
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


def _end(evidence: Evidence) -> Iterator[tuple[str, str]]:
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
