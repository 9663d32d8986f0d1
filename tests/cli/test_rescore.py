from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_the_same_scorer_gives_the_same_scores(cli: Cli, trained: Path) -> None:
    done = cli(trained, "-q", "rescore")
    assert (done.code, done.err) == (0, "")
    (summary,) = done.out.splitlines()
    assert " 0 changed." in summary
    assert "then" in summary


def test_another_scorer_is_tried_without_any_call(cli: Cli, done: Path) -> None:
    (done / "lenient.yaml").write_text("type: regex\npattern: ''\n", encoding="utf-8")
    found = cli(done, "rescore", "--scorer", "lenient.yaml", "--stage", "selection", "--json").json
    assert found["calls"] == 0
    assert {one["stage"] for one in found["attempts"]} == {"selection"}
    assert all(one["after"]["hard"] == 1.0 for one in found["attempts"])
    assert any(one["before"]["hard"] == 0.0 for one in found["attempts"])


def test_nothing_is_recorded_in_git(cli: Cli, done: Path, git: object) -> None:
    before = cli(done, "status", "--json").json["commit"]
    assert cli(done, "rescore", "-o", "scorer={type: regex, pattern: x}").code == 0
    assert cli(done, "status", "--json").json["commit"] == before


def test_a_file_that_is_no_scorer_is_told(cli: Cli, done: Path) -> None:
    (done / "odd.yaml").write_text("- type: exact\n", encoding="utf-8")
    told = cli(done, "rescore", "--scorer", "odd.yaml")
    assert told.code == 2
    assert "expected a scorer" in told.err


def test_without_a_record_there_is_nothing_to_grade(cli: Cli, untrained: Path) -> None:
    told = cli(untrained, "rescore")
    assert told.code == 2
    assert "No attempt is recorded" in told.err
