from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from skillopt_ci.config.loading import load

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

SCHEMA = Path(__file__).parents[2] / "configs" / "schema.json"


def test_what_is_printed_is_the_same_configuration(
    cli: Cli, untrained: Path, tmp_path: Path
) -> None:
    done = cli(untrained, "config", "-o", "train.num_epochs=7")
    (tmp_path / "printed.yaml").write_text(done.out, encoding="utf-8")
    expected = load(untrained / "skillopt.yaml", ("train.num_epochs=7",)).config
    assert load(tmp_path / "printed.yaml").config == expected


def test_json_has_the_defaults_worked_in(cli: Cli, untrained: Path) -> None:
    found = cli(untrained, "config", "--json").json
    assert found["evaluation"]["gate_metric"] == "hard"


def test_the_schema_is_the_committed_one(cli: Cli, untrained: Path) -> None:
    printed = json.loads(cli(untrained, "config", "schema").out)
    assert printed == json.loads(SCHEMA.read_text(encoding="utf-8"))


def test_warnings_go_to_stderr(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "skillopt.yaml").write_text(
        "env: {skill_init: SKILL.md, split_dir: data}\ntrain: {num_epochs: 2}\n"
        "model: {target: m, optimizer: m}\nevaluation: {use_gate: true}\n",
        encoding="utf-8",
    )
    done = cli(tmp_path, "config", "-o", "run=x")
    assert done.code == 0, done.err
    assert done.err.startswith("warning: ")
    assert "warning" not in done.out
