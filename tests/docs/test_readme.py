"""The README promises nothing that the program does not do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from script_module import script

from skillopt_ci.cli.main import COMMANDS
from skillopt_ci.config.loading import load
from skillopt_ci.config.scorers import ScorerSpec
from skillopt_ci.tasks.loading import load_tasks

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_every_configuration_loads(tmp_path):
    file = tmp_path / "skillopt.yaml"
    runs = [text for text in blocks("yaml") if text.startswith("run:")]
    assert runs
    for text in runs:
        file.write_text(text, encoding="utf-8")
        assert load(file).warnings == ()


def test_the_task_is_one_that_loads(tmp_path):
    file = tmp_path / "train.jsonl"
    file.write_text(blocks("json")[0], encoding="utf-8")
    tasks, problems = load_tasks(file)
    assert [task.id for task in tasks] == [json.loads(blocks("json")[0])["id"]]
    assert not problems


def test_every_command_line_names_a_command():
    used = re.findall(r"^skillopt-ci ([a-z-]+)", "\n".join(blocks("sh")), re.MULTILINE)
    assert used
    assert set(used) <= set(COMMANDS)


def test_the_table_of_scorers_is_complete():
    union, *_ = get_args(ScorerSpec)
    types = {get_args(model.model_fields["type"].annotation)[0] for model in get_args(union)}
    page = (ROOT / "docs" / "how-to" / "tasks-and-scorers.md").read_text(encoding="utf-8")
    table = page[page.index("## Choose a scorer") : page.index("## Write your own scorer")]
    assert types <= set(re.findall(r"`(\w+)`", table))


def test_every_file_that_is_linked_is_there():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    links += re.findall(r'(?:src|srcset)="([^":]+)"', README)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_figures_are_those_of_their_page():
    page = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    figures = re.findall(r"0\.\d{3}\**? \([\d,]+\)", README)
    assert len(figures) == 12
    assert [figure for figure in figures if figure not in page] == []


def test_the_first_screen_leads_from_what_it_is_to_a_command_to_try():
    screen = README[: README.index("## ")]
    assert "uvx" in screen
    assert "/.github/workflows/train.yml@" in screen
    assert len(screen.splitlines()) <= 50


@pytest.mark.end_to_end
def test_the_transcript_is_the_quickstart_s_log(tmp_path):
    quickstart = [sys.executable, "-m", "skillopt_ci", "-q", "quickstart", "example"]
    subprocess.run(quickstart, capture_output=True, check=True, cwd=tmp_path)
    shown, *transcript = blocks("console")[0].splitlines()
    printed = subprocess.run(
        shown.removeprefix("$ ").split(),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path / "example",
    ).stdout
    subjects = [line.partition(" ")[2] for line in transcript if line != "…"]
    assert [subject for subject in subjects if subject not in printed] == []


# The page of agents says with which versions their programs were checked.


@pytest.fixture(scope="module")
def versions() -> Any:
    return script("agent_versions")


def test_the_page_names_a_version_of_each_program(versions):
    named = versions.checked(versions.PAGE.read_text())
    assert set(named) == set(filter(None, versions.PACKAGES))
    assert all(version[0].isdigit() for version in named.values())


def test_versions_that_passed_are_written_into_the_row_alone(versions, tmp_path):
    for number, name in enumerate(filter(None, versions.PACKAGES)):
        package = tmp_path / "node_modules" / name / "package.json"
        package.parent.mkdir(parents=True)
        package.write_text(json.dumps({"version": f"1.0.{number}"}))
    page = versions.PAGE.read_text()
    changed = versions.with_versions(page, versions.installed(tmp_path))
    assert "| checked with | 1.0.0 | 1.0.1 | 1.0.2 | not checked | 1.0.3 |" in changed
    assert versions.with_versions(changed, versions.checked(page)) == page


def test_a_page_without_the_row_is_refused(versions):
    with pytest.raises(ValueError, match="no row `checked with`"):
        versions.checked("# Agents\n")


def test_it_prints_what_npm_installs(versions, capsys):
    assert versions.main(["packages"]) == 0
    assert "@openai/codex@" in capsys.readouterr().out
    assert versions.main([]) == 2
