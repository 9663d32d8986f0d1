from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from skillopt_ci.cli.check import Finding, check_run
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import ExitCode

Edit = Callable[[Path, str, str], None]


GitText = Callable[..., str]


def look(folder: Path, *overrides: str) -> list[Finding]:
    settings = Globals(environ=dict(os.environ), cwd=folder, overrides=overrides)
    loaded, found = check_run(settings)
    assert (loaded is None) == (found[0].level == "error")
    return found


def errors(found: list[Finding]) -> dict[str, str]:
    return {one.part: one.text for one in found if one.level == "error"}


def warnings(found: list[Finding]) -> list[str]:
    return [one.text for one in found if one.level == "warning"]


def test_a_run_that_can_start_has_every_part_in_order(untrained: Path) -> None:
    found = look(untrained)
    parts = [one.part for one in found if one.level == "ok"]
    assert parts == [
        *("config", "tasks", "plan", "scorers", "model.target", "model.optimizer", "skill", "git")
    ]
    assert errors(found) == {}


def test_a_started_run_tells_where_it_stands(trained: Path) -> None:
    run = look(trained)[-1]
    assert (run.part, run.level) == ("run", "ok")
    assert run.text.startswith("2 steps done, now at 0.")


def test_a_simulated_model_that_does_not_exist_is_named_with_the_nearest(untrained: Path) -> None:
    found = errors(look(untrained, "model.target=simulated/simulated-tarjet"))
    assert set(found) == {"model.target"}
    assert "Did you mean 'simulated-target'?" in found["model.target"]


def test_a_wrong_configuration_is_named_by_line_and_nothing_else_is_looked_at(
    fresh: Path, edit: Edit
) -> None:
    edit(fresh / "skillopt.yaml", "num_epochs", "epochs")
    found = look(fresh)
    assert len(found) == 1
    assert "skillopt.yaml:" in errors(found)["config"]


def test_independent_faults_are_all_found_in_one_look(fresh: Path, edit: Edit) -> None:
    edit(fresh / "skills/ledger/SKILL.md", "name: ledger", "name: Ledger!")
    with (fresh / "tasks/train.jsonl").open("a", encoding="utf-8") as file:
        file.write("{not json\n")
    found = look(fresh, "git.base=trunk", "prompts=none")
    assert set(errors(found)) == {"skill", "tasks", "git", "prompts"}
    assert "SKILL.md:2" in errors(found)["skill"]
    assert "train.jsonl:49" in errors(found)["tasks"]


def test_overlapping_splits_are_refused(fresh: Path) -> None:
    found = look(fresh, "tasks.selection=tasks/train.jsonl")
    assert "train" in errors(found)["tasks"]


def test_a_scorer_that_cannot_grade_is_an_error_of_its_own(fresh: Path) -> None:
    found = look(fresh, "scorer={type: command, command: [no-such-program]}")
    assert list(errors(found)) == ["scorers"]
    assert "no-such-program" in errors(found)["scorers"]


def test_a_plan_that_does_not_fit_the_tasks_is_an_error(fresh: Path) -> None:
    assert "train.train_size is 3" in errors(look(fresh, "train.train_size=3"))["plan"]


def test_a_skill_that_is_not_there_is_told_once(fresh: Path) -> None:
    found = look(fresh, "skill=skills/none.md")
    assert errors(found)["skill"].startswith("skills/none.md: there is no such file\nDid you mean ")
    assert "git" not in errors(found)


def test_a_skill_that_is_not_committed_says_how(fresh: Path) -> None:
    (fresh / "NEW.md").write_text("# New\n", encoding="utf-8")
    found = look(fresh, "skill=NEW.md")
    assert errors(found) == {"git": "NEW.md is not committed on main: git add NEW.md && git commit"}


def test_a_skill_that_is_not_text_is_an_error(fresh: Path) -> None:
    (fresh / "skills/ledger/SKILL.md").write_bytes(b"\xff")
    assert "utf-8" in errors(look(fresh))["skill"]


def test_unsaved_changes_of_the_skill_are_warned_about(fresh: Path, edit: Edit) -> None:
    edit(fresh / "skills/ledger/SKILL.md", "name: ledger", "name: ledger\nlicense: MIT")
    assert any("differs from main" in text for text in warnings(look(fresh)))


def test_few_selection_tasks_and_no_test_tasks_are_warned_about(fresh: Path, edit: Edit) -> None:
    edit(fresh / "skillopt.yaml", "  test: tasks/test.jsonl", "  # none")
    told = " ".join(warnings(look(fresh, "evaluation.sel_env_num=1")))
    assert "only 1 selection task:" in told
    assert "no test tasks" in told


def test_a_missing_key_is_only_warned_about(fresh: Path) -> None:
    found = look(fresh, "model.target.provider=openai", "model.target.api_key_env=LEDGER_KEY")
    assert errors(found) == {}
    assert any("LEDGER_KEY" in text for text in warnings(found))


def test_a_budget_in_money_needs_prices(fresh: Path) -> None:
    found = look(fresh, "model.target.provider=openai", "budget.run.cost_usd=1")
    assert "model.target.price" in errors(found)["budget"]


def test_a_remote_that_cannot_be_reached_is_infrastructure(
    fresh: Path, git: GitText, tmp_path: Path
) -> None:
    git(fresh, "remote", "add", "origin", str(tmp_path / "gone.git"))
    (finding,) = (one for one in look(fresh, "git.base=main") if one.part == "git")
    assert (finding.level, finding.exit_code) == ("error", ExitCode.INFRASTRUCTURE)


def test_a_remote_that_takes_no_push_is_found_before_anything_is_paid_for(
    fresh: Path, git: GitText, tmp_path: Path
) -> None:
    origin = tmp_path / "origin.git"
    git(fresh, "clone", "--quiet", "--bare", ".", str(origin))
    git(fresh, "remote", "add", "origin", str(origin))
    git(fresh, "remote", "set-url", "--push", "origin", str(tmp_path / "read-only.git"))
    assert "git" in errors(look(fresh))


def test_outside_of_a_repository_the_rest_is_still_looked_at(
    untrained: Path, tmp_path: Path
) -> None:
    for part in ("skills", "tasks", "skillopt.yaml"):
        (tmp_path / part).symlink_to(untrained / part)
    found = look(tmp_path)
    assert "not inside a git repository" in errors(found)["git"]
    assert Finding("skill", "ok", "skills/ledger/SKILL.md") in found


@pytest.mark.parametrize("state", ["{}", "<<<<<<< HEAD"])
def test_a_damaged_record_of_the_run_is_an_error(fresh: Path, git: GitText, state: str) -> None:
    file = fresh / ".skillopt/quickstart/state.json"
    file.parent.mkdir(parents=True)
    file.write_text(state, encoding="utf-8")
    git(fresh, "add", ".")
    git(fresh, "commit", "--quiet", "-m", "Damage")
    assert "state.json" in errors(look(fresh))["git"]
