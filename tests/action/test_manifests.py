"""What the action's manifests, its documentation and its code say of inputs and outputs."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from script_module import script

from skillopt_ci.action.inputs import INPUTS, Command, Inputs
from skillopt_ci.action.outputs import Outputs
from skillopt_ci.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
MANIFESTS = ("action.yml", "composite/action.yml", "docker/action.yml")


def manifest(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_generated_parts_are_up_to_date():
    for name, text in script("action_manifests").files(ROOT).items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, "scripts/action_manifests.py"


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_has_the_inputs_and_outputs_of_the_code(name):
    read = manifest(name)
    assert list(read["inputs"]) == [entry.name for entry in INPUTS]
    assert {k: v["default"] for k, v in read["inputs"].items()} == {
        entry.name: entry.default for entry in INPUTS
    }
    assert set(read["outputs"]) == set(Outputs().by_name())


def test_the_defaults_of_the_code_are_those_of_the_manifest():
    defaults = {entry.name: entry.default for entry in INPUTS}
    assert (defaults["config"], defaults["directory"]) == (Inputs().config, Inputs().directory)
    assert (defaults["split"], defaults["label"]) == (Inputs().split, Inputs().label)
    assert int(defaults["shards"]) == Inputs().shards


def test_the_composite_twin_hands_every_input_on():
    steps = manifest("composite/action.yml")["runs"]["steps"]
    env = next(step["env"] for step in steps if step.get("id") == "run")
    for entry in INPUTS:
        assert env[f"INPUT_{entry.name.upper()}"] == f"${{{{ inputs.{entry.name} }}}}"


def test_the_composite_twin_hands_every_output_back():
    for name, output in manifest("composite/action.yml")["outputs"].items():
        assert output["value"] == f"${{{{ steps.run.outputs.{name} }}}}"


def test_every_command_is_one_of_the_command_line():
    assert [name for name in Command if name.verb not in COMMANDS] == []


def test_every_command_is_documented():
    text = INPUTS[0].text
    assert [name for name in Command if f"`{name}`" not in text] == []


def test_the_marketplace_gets_its_branding():
    assert set(manifest("action.yml")["branding"]) == {"icon", "color"}
    assert len(manifest("action.yml")["description"]) <= 125


def test_inputs_need_no_dashes_that_a_shell_would_lose():
    assert all(entry.name.isidentifier() for entry in INPUTS)
    assert len(INPUTS) <= 12
