"""The run as a whole as SkillOpt writes it: configuration, resume pointer, summary."""

import math
from collections.abc import Mapping

from skillopt_ci import __version__
from skillopt_ci.ledger.records.summary import FinalSkill, Summary
from skillopt_ci.ledger.records.usage import UsageRecord
from skillopt_ci.report.skillopt_evidence import Evidence, known
from skillopt_ci.report.skillopt_step import token_counts
from skillopt_ci.report.timeline import Moment

_SECTIONS = ("train", "gradient", "optimizer", "evaluation")
_FLAT_NAMES: Mapping[str, str] = {
    "learning_rate": "edit_budget",
    "min_learning_rate": "min_edit_budget",
    "trace_to_optimizer": "codex_trace_to_optimizer",
}
_BACKENDS: Mapping[str, str] = {"openai": "openai_chat"}


def flat_config(evidence: Evidence) -> dict[str, object]:
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


def runtime_state(evidence: Evidence, root: str) -> dict[str, object]:
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


def run_summary(evidence: Evidence, summary: Summary) -> dict[str, object]:
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


def _origins(evidence: Evidence, last: Moment) -> dict[str, object]:
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
