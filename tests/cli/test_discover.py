"""What `discover` finds in real repositories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

pytestmark = pytest.mark.integration

CONFIG = """\
tasks: {train: a.jsonl, selection: b.jsonl}
model: {target: {provider: simulated, model: m}, optimizer: {provider: simulated, model: m}}
"""
TWO = f"""{CONFIG}
runs:
  - {{run: invoices, skill: skills/invoices/SKILL.md}}
  - {{run: letters, skill: skills/letters/SKILL.md}}
"""


@pytest.fixture
def place(tmp_path: Path, git: Callable[..., str]) -> Path:
    git(tmp_path, "init", "--quiet")
    return tmp_path


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def skill(folder: Path, path: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text("one two three\n")


def test_skills_and_their_runs(cli: Cli, place: Path) -> None:
    skill(place, "skills/invoices/SKILL.md")
    skill(place, "skills/letters/SKILL.md")
    skill(place, "AGENTS.md")
    (place / "skillopt.yaml").write_text(TWO)
    done = cli(place, "discover")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1:4] == [
        "3      agents   -           AGENTS.md",
        "3      agents   invoices    skills/invoices/SKILL.md",
        "3      agents   letters     skills/letters/SKILL.md",
    ]
    assert "To train one: skillopt-ci init --skill AGENTS.md" in done.out


def test_the_matrix_has_a_job_for_each_run_of_every_configuration(cli: Cli, place: Path) -> None:
    (place / "skillopt.yaml").write_text(TWO)
    (place / "api").mkdir()
    (place / "api" / "skillopt.yaml").write_text(f"run: api\nskill: AGENTS.md\n{CONFIG}")
    found = cli(place / "api", "discover", "--json").json
    assert found["matrix"] == {
        "include": [
            {"run": "api", "config": "api/skillopt.yaml"},
            {"run": "invoices", "config": "skillopt.yaml"},
            {"run": "letters", "config": "skillopt.yaml"},
        ]
    }
    assert found["runs"][0]["skill"] == "api/AGENTS.md"


def test_what_git_ignores_is_not_looked_at(cli: Cli, place: Path) -> None:
    skill(place, "AGENTS.md")
    skill(place, "node_modules/x/AGENTS.md")
    (place / ".gitignore").write_text("node_modules/\n")
    found = cli(place, "discover", "--json").json
    assert [one["path"] for one in found["documents"]] == ["AGENTS.md"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (f"run: letters\nskill: z.md\n{CONFIG}", "several runs are called 'letters'"),
        (
            f"run: more\nskill: ../skills/letters/SKILL.md\n{CONFIG}",
            "several runs train skills/letters/SKILL.md: more, letters",
        ),
        ("run: [", "api/skillopt.yaml:1"),
    ],
)
def test_runs_in_each_others_way_are_told(cli: Cli, place: Path, other: str, said: str) -> None:
    (place / "skillopt.yaml").write_text(TWO)
    (place / "api").mkdir()
    (place / "api" / "skillopt.yaml").write_text(other)
    done = cli(place, "discover")
    assert done.code == 2
    assert said in done.err


def test_an_empty_repository_says_how_to_begin(cli: Cli, place: Path) -> None:
    done = cli(place, "discover")
    assert done.code == 3
    assert "skillopt-ci init" in done.err


def test_outside_of_a_repository(cli: Cli, tmp_path: Path) -> None:
    done = cli(tmp_path, "discover")
    assert done.code == 2
    assert "not inside a git repository" in done.err


def test_a_document_that_is_no_text_is_listed_all_the_same(cli: Cli, place: Path) -> None:
    (place / "AGENTS.md").write_bytes(b"\xff\xfe")
    assert cli(place, "discover", "--json").json["documents"][0]["words"] is None
