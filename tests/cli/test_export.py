"""The exported folder holds what SkillOpt's own would (reference 1.0, 1.14, 1.15)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.errors import ExitCode

RECORD_FIELDS = {
    *("step", "epoch", "step_in_epoch", "timing", "tokens", "rollout_hard", "rollout_soft"),
    *("rollout_n", "accumulation_batches", "n_patches", "n_failure_patches", "n_success_patches"),
    *("n_edits_merged", "n_edits_ranked", "edit_budget", "lr_control_mode", "support_counts"),
    *("candidate_hash", "candidate_skill_len", "edit_apply_summary", "selection_hard"),
    *("selection_soft", "gate_metric", "candidate_gate_score", "action", "current_score"),
    *("best_score", "best_step", "current_origin", "best_origin", "skill_len", "wall_time_s"),
}
BATCH_FIELDS = {
    *("batch_idx", "batch_seed", "n_envs", "hard", "soft"),
    *("n_failure_patches", "n_success_patches"),
}
SUMMARY_FIELDS = {
    *("version", "config", "baseline_selection_hard", "best_selection_hard"),
    *("final_selection_hard", "final_selection_soft", "best_step", "current_origin"),
    *("best_origin", "total_steps", "total_accepts", "total_rejects", "total_skips"),
    *("epoch_stats", "baseline_test_hard", "baseline_test_soft", "test_hard", "test_soft"),
    *("final_test_hard", "final_test_soft", "test_delta_hard", "final_test_delta_hard"),
    *("total_wall_time_s", "token_summary"),
}
EPOCH_FIELDS = {
    *("epoch", "steps", "accepts", "rejects", "skips"),
    *("best_score_at_epoch_end", "current_score_at_epoch_end"),
}
STATE_FIELDS = {
    *("last_completed_step", "current_skill_path", "current_score", "current_origin"),
    *("best_skill_path", "best_score", "best_step", "best_origin"),
}
DERIVED = {"train_size", "steps_per_epoch", "batches_per_epoch"}
DERIVED |= {"skill_update_mode", "lr_control_mode", "edit_budget", "min_edit_budget"}


@pytest.fixture
def exported(cli, ended: Path, tmp_path: Path) -> Path:
    assert cli(ended, "export", "--format", "skillopt", tmp_path / "out").code == ExitCode.DONE
    return tmp_path / "out"


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def measured_step(exported: Path) -> dict[str, Any]:
    return next(one for one in read(exported, "history.json") if "selection_hard" in one)


def test_a_step_has_every_field_that_the_reference_names(exported: Path) -> None:
    record = measured_step(exported)
    assert record.keys() >= RECORD_FIELDS
    assert record["accumulation_batches"][0].keys() == BATCH_FIELDS
    for used in record["tokens"].values():
        assert used.keys() == {"calls", "prompt_tokens", "completion_tokens"}
    assert record["edit_apply_summary"].keys() == {"total", "applied", "skipped", "errors"}
    assert len(record["candidate_hash"]) == 16


def test_the_summary_has_every_field_that_the_reference_names(exported: Path) -> None:
    summary = read(exported, "summary.json")
    assert summary.keys() == SUMMARY_FIELDS
    assert summary["epoch_stats"][0].keys() == EPOCH_FIELDS
    assert "_total" in summary["token_summary"]
    assert summary["config"] == read(exported, "config.json")
    assert read(exported, "config.json").keys() >= DERIVED


def test_the_resume_pointer_leads_to_files_that_are_there(exported: Path) -> None:
    state = read(exported, "runtime_state.json")
    assert state.keys() == STATE_FIELDS
    current, best = (Path(state[f"{which}_skill_path"]) for which in ("current", "best"))
    assert current.is_file()
    assert best.read_bytes() == (exported / "best_skill.md").read_bytes()


def test_every_step_has_its_folder(exported: Path) -> None:
    record = measured_step(exported)
    folder = exported / f"steps/step_{record['step']:04}"
    assert read(folder, "step_record.json") == record
    digest = read(folder, "trajectory_digest.json")
    assert digest.keys() >= {"step", "action", "n_total", "n_fail", "failure_patterns"}
    report = read(folder, "edit_apply_report.json")
    assert report[0].keys() == {"op", "target", "content_preview", "status", "index"}
    assert read(folder, "ranked_edits.json").keys() == {"reasoning", "edits"}
    rows = (folder / "rollout/results.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows) == record["rollout_n"]
    assert json.loads(rows[0]).keys() >= {"id", "hard", "soft", "fail_reason", "task_type"}
    assert (folder / "candidate_skill.md").is_file()
    assert (folder / "selection_eval/results.jsonl").is_file()


def test_skills_are_those_of_git(exported: Path, ended: Path, git: Callable[..., str]) -> None:
    steps = len(read(exported, "history.json"))
    names = [file.name for file in sorted((exported / "skills").iterdir())]
    assert names == [f"skill_v{step:04}.md" for step in range(steps + 1)]
    initial = git(ended, "show", "main:skills/ledger/SKILL.md")
    current = git(ended, "show", "skillopt/quickstart:skills/ledger/SKILL.md")
    texts = [(exported / "skills" / name).read_text(encoding="utf-8").strip() for name in names]
    assert (texts[0], texts[-1]) == (initial.strip(), current.strip())


def test_test_folders_sum_up_by_task_type(exported: Path) -> None:
    for name in ("test_eval_baseline", "test_eval", "test_eval_final"):
        found = read(exported, f"{name}/summary.json")
        assert found["overall"].keys() == {"total", "hard_acc"}
        assert found["overall"]["total"] == sum(
            one["total"] for kind, one in found.items() if kind != "overall"
        )


def test_an_epochs_end_has_its_folders(exported: Path) -> None:
    slow = read(exported, "slow_update/epoch_01/slow_result.json")
    assert slow.keys() >= {"reasoning", "slow_update_content", "candidate_hash", "update_origin"}
    assert slow["action"] == "inject_placeholder"
    assert (exported / "slow_update/epoch_01/candidate_skill.md").is_file()
    meta = read(exported, "meta_skill/epoch_01/meta_skill_result.json")
    assert meta.keys() == {"action", "reasoning", "meta_skill_content"}
    assert meta["action"] == "skip_first_epoch"


def test_a_shallow_clone_is_deepened_for_the_skills(
    cli, exported: Path, finished: Path, clone: Callable[..., Path], tmp_path: Path
) -> None:
    shallow = clone(
        "--depth", "1", "--branch", "skillopt/quickstart", "--single-branch", of=finished
    )
    done = cli(shallow, "export", "--run", "quickstart", tmp_path / "again")
    assert done.code == ExitCode.DONE
    ours = {path.relative_to(exported) for path in exported.rglob("*")}
    assert {
        path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*")
    } == ours


def test_a_folder_with_something_in_it_is_refused(cli, done: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep", encoding="utf-8")
    result = cli(done, "export", tmp_path / "mine")
    assert (result.code, "nothing was written" in result.err) == (ExitCode.USAGE, True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
