from pathlib import Path, PurePosixPath

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.cli.scaffold import (
    WORKFLOWS,
    Choices,
    existing_skill,
    scaffold,
    slug,
    workflow_files,
    write_new,
)
from skillopt_ci.config.loading import load
from skillopt_ci.errors import UsageError
from skillopt_ci.skill.validation import problems
from skillopt_ci.tasks.loading import load_splits

ROLE = {"provider": "openai", "model": "m: #1", "base_url": "http://localhost/v1", "timeout": 900}


def chosen(skill: str = "skills/notes/SKILL.md", run: str = "notes") -> Choices:
    return Choices(run, skill, target=ROLE, optimizer={"provider": "openai", "model": "yes"})


def test_the_configuration_says_what_was_chosen(tmp_path: Path) -> None:
    write_new(tmp_path, scaffold(chosen(run="123"), "skillopt.yaml"))
    loaded = load(tmp_path / "skillopt.yaml")
    assert loaded.warnings == ()
    assert (loaded.config.run, loaded.config.skill) == ("123", "skills/notes/SKILL.md")
    assert loaded.config.model.target.model == "m: #1"
    assert loaded.config.model.target.timeout == 900
    assert loaded.config.model.optimizer.model == "yes"


def test_the_example_tasks_are_a_usable_split(tmp_path: Path) -> None:
    write_new(tmp_path, scaffold(chosen(), "skillopt.yaml"))
    splits = load_splits(load(tmp_path / "skillopt.yaml").config.tasks, tmp_path)
    assert all((splits.train, splits.selection, splits.test))


@pytest.mark.parametrize("skill", ["skills/notes/SKILL.md", "SKILL.md", "AGENTS.md"])
def test_the_starter_skill_has_no_problem(skill: str, tmp_path: Path) -> None:
    text = scaffold(chosen(skill), "skillopt.yaml")[skill]
    file = tmp_path / "notes" / Path(skill).name
    assert problems(text, file) == ()


def test_what_exists_is_never_written(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine", encoding="utf-8")
    (tmp_path / "b").symlink_to("nowhere")
    assert write_new(tmp_path, {"a": "new", "b": "new", "c/d": "new"}) == ["c/d"]
    assert (tmp_path / "a").read_text(encoding="utf-8") == "mine"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "c", "d"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("a file", encoding="utf-8")
    with pytest.raises(UsageError, match="tasks cannot be written"):
        write_new(tmp_path, {"tasks/train.jsonl": ""})


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([], None),
        (["AGENTS.md", "skills/b/SKILL.md", "skills/a/SKILL.md"], "skills/a/SKILL.md"),
        (["AGENTS.md"], "AGENTS.md"),
    ],
)
def test_a_skill_that_is_there_is_found(
    files: list[str], found: str | None, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert existing_skill(tmp_path) == found


@given(st.text())
def test_a_slug_is_always_a_name(text: str) -> None:
    name = slug(text)
    assert 0 < len(name) <= 64
    assert slug(name) == name
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


EXAMPLES = Path(__file__).parents[2] / "examples" / "workflows"


CONFIG = PurePosixPath("skillopt.yaml")


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_is_an_example_with_other_values(name: str) -> None:
    text = workflow_files(CONFIG, key="A_KEY")[f".github/workflows/skillopt-{name}.yml"]
    example = (EXAMPLES / f"{name}.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["jobs"].keys() == yaml.safe_load(example)["jobs"].keys()
    assert len(text.splitlines()) == len(example.splitlines())
    assert not any(left in text for left in ("OPENAI_API_KEY", '"skills/**"'))
    assert "A_KEY: ${{ secrets.A_KEY }}" in text


def test_a_model_without_a_key_needs_no_secret() -> None:
    for text in workflow_files(CONFIG).values():
        assert "secrets." not in text
        yaml.safe_load(text)


def test_the_report_is_published_only_where_that_is_asked_for() -> None:
    name = ".github/workflows/skillopt-pages.yml"
    assert name not in workflow_files(CONFIG)
    files = workflow_files(PurePosixPath("a/skillopt.yaml"), key="A_KEY", pages=True)
    jobs = yaml.safe_load(files[name])["jobs"]
    assert "secrets." not in files[name]
    assert jobs["report"]["steps"][2]["with"] == {"config": "a/skillopt.yaml", "command": "report"}
    followed = yaml.safe_load(files[name])[True]["workflow_run"]["workflows"]
    names = {yaml.safe_load(text)["name"] for text in files.values()}
    assert set(followed) <= names


def test_names_with_quotes_stay_one_value() -> None:
    config = PurePosixPath("it's/skillopt.yaml")
    train = yaml.safe_load(
        workflow_files(config, branch="o'clock")[".github/workflows/skillopt-train.yml"]
    )
    push = train[True]["push"]  # YAML 1.1 reads the key `on` as true
    assert push == {"branches": ["o'clock"], "paths": ["it's/skillopt.yaml", "it's/tasks/**"]}
