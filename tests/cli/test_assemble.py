from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skillopt_ci.cli.build import open_session
from skillopt_ci.cli.options import Globals
from skillopt_ci.errors import ConfigError, SkilloptError
from skillopt_ci.progress import Event, Note, silent

Edit = Callable[[Path, str, str], None]


@pytest.fixture
def settings(untrained: Path) -> Globals:
    return Globals(environ=dict(os.environ), cwd=untrained)


def test_the_parts_are_those_of_the_configuration(settings: Globals, untrained: Path) -> None:
    session = open_session(settings, silent)
    assert (session.config.run, session.skill_path) == ("quickstart", "skills/ledger/SKILL.md")
    assert [len(part) for part in (session.splits.train, session.selection, session.test)] == [
        *(16, 16, 16)
    ]
    assert session.ledger.root == untrained.resolve()
    assert session.simulated


def test_the_cache_is_inside_git_unless_said_otherwise(settings: Globals, untrained: Path) -> None:
    def cache(*overrides: str) -> Path | None:
        return open_session(replace(settings, overrides=overrides), silent).cache_path

    assert cache() == untrained.resolve() / ".git/skillopt-ci/calls.sqlite"
    assert cache("cache.path=calls.db") == untrained / "calls.db"
    assert cache("cache.enabled=false") is None


def test_scores_do_not_compare_when_what_they_depend_on_changes(settings: Globals) -> None:
    def measured_under(*overrides: str) -> str:
        return open_session(replace(settings, overrides=overrides), silent).measured_under

    assert measured_under("train.num_epochs=9") == measured_under()
    assert measured_under("evaluation.sel_env_num=3") != measured_under()
    assert measured_under("model.target.seed=1") != measured_under()


def test_a_configuration_in_a_subfolder_starts_its_paths_there(
    settings: Globals, fresh: Path
) -> None:
    (fresh / "skillopt.yaml").rename(fresh / "skills" / "skillopt.yaml")
    (fresh / "tasks").rename(fresh / "skills" / "tasks")
    over = ("skill=ledger/SKILL.md",)
    inside = replace(settings, cwd=fresh, config=Path("skills/skillopt.yaml"), overrides=over)
    assert open_session(inside, silent).skill_path == "skills/ledger/SKILL.md"


def test_a_skill_outside_of_the_repository_is_refused(settings: Globals) -> None:
    outside = replace(settings, overrides=("skill=../SKILL.md",))
    with pytest.raises(ConfigError, match=r"skill: \.\./SKILL\.md is outside of the repository"):
        open_session(outside, silent)


def test_a_scorer_that_cannot_work_is_found_at_once(settings: Globals) -> None:
    scorer = "scorer={type: command, command: [no-such-program]}"
    with pytest.raises(SkilloptError, match="no-such-program"):
        open_session(replace(settings, overrides=(scorer,)), silent)


def test_prompts_of_the_repository_s_own_are_used(settings: Globals, fresh: Path) -> None:
    (fresh / "prompts").mkdir()
    (fresh / "prompts/target.md").write_text("Be brief.\n\n{skill}\n", encoding="utf-8")
    own = replace(settings, cwd=fresh, overrides=("prompts=prompts",))
    assert open_session(own, silent).prompts.target("S").startswith("Be brief.")


def test_warnings_of_the_configuration_are_told(settings: Globals, fresh: Path) -> None:
    (fresh / "skillopt.yaml").write_text(
        "env: {skill_init: skills/ledger/SKILL.md, split_dir: split}\n"
        "model: {target: m, optimizer: m}\nevaluation: {use_gate: true}\n",
        encoding="utf-8",
    )
    for split in ("train", "val", "test"):
        (fresh / "split" / split).mkdir(parents=True)
        item = f'[{{"id": "{split}", "question": "{split}?", "answers": ["yes"]}}]'
        (fresh / "split" / split / "items.json").write_text(item, encoding="utf-8")
    told: list[Event] = []

    def note(event: Event) -> None:
        told.append(event)

    over = ("run=x", "scorer={type: exact}")
    open_session(replace(settings, cwd=fresh, overrides=over), note)
    assert any(isinstance(event, Note) and event.level == "warning" for event in told)
