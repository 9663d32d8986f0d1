"""``calibrate`` lets a skill meet itself on the run's own tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_it_says_how_often_the_gate_errs_and_what_it_needs(cli: Cli, trained: Path) -> None:
    done = cli(trained, "calibrate", "--draws", "3")
    assert done.out.startswith(
        "Calibration on 16 selection tasks (simulated models): each attempted"
    )
    assert "Of 6 comparisons of the skill with itself the configured gate took" in done.out
    assert "strict (configured)" in done.out
    assert "To find a gain of 0.1 with a probability of 80%" in done.out


def test_json_is_one_object(cli: Cli, trained: Path) -> None:
    gate = ("-o", "evaluation.gate.policy=paired", "-o", "evaluation.gate.confidence=0.9")
    found = cli(trained, "calibrate", "initial", "--effect", "0.3", "--json", *gate).json
    assert (found["tasks"], found["draws"], found["effect"]) == (16, 4, 0.3)
    configured, *others = found["settings"]
    assert (configured["configured"], configured["settings"]["policy"]) == (True, "paired")
    assert configured["false_accepts"] <= 0.1 + 0.04
    assert {one["settings"]["policy"] for one in others} == {"strict", "sequential"}
    assert [need["attempts"] for need in found["needs"]] == [1]
    assert found["same_trials"] == 12


def test_it_can_be_repeated(cli: Cli, trained: Path) -> None:
    first, again = (cli(trained, "calibrate", "--draws", "2", "--json").json for _ in range(2))
    assert again == first


def test_an_open_gate_has_nothing_to_calibrate(cli: Cli, trained: Path) -> None:
    done = cli(trained, "calibrate", "-o", "evaluation.use_gate=false")
    assert done.code == 2
    assert "evaluation.use_gate is false" in done.err
