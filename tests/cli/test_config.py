import json
from pathlib import Path

from skillopt_ci.config.loading import load

SCHEMA = Path(__file__).parents[2] / "configs" / "schema.json"


def test_what_is_printed_is_the_same_configuration(cli, untrained, tmp_path):
    done = cli(untrained, "config", "-o", "train.num_epochs=7")
    (tmp_path / "printed.yaml").write_text(done.out, encoding="utf-8")
    expected = load(untrained / "skillopt.yaml", ("train.num_epochs=7",)).config
    assert load(tmp_path / "printed.yaml").config == expected


def test_json_has_the_defaults_worked_in(cli, untrained):
    assert cli(untrained, "config", "--json").json["evaluation"]["gate_metric"] == "hard"


def test_the_schema_is_the_committed_one(cli, tmp_path):
    printed = json.loads(cli(tmp_path, "config", "schema").out)
    committed = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert printed == committed, "run skillopt-ci config schema > configs/schema.json"


def test_warnings_go_to_stderr(cli, tmp_path):
    (tmp_path / "skillopt.yaml").write_text(
        "env: {skill_init: SKILL.md, split_dir: data}\ntrain: {num_epochs: 2}\n"
        "model: {target: m, optimizer: m}\nevaluation: {use_gate: true}\n",
        encoding="utf-8",
    )
    done = cli(tmp_path, "config", "-o", "run=x")
    assert done.code == 0, done.err
    assert done.err.startswith("warning: ")
    assert "warning" not in done.out
