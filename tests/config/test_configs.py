import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from config_files import MINIMAL
from jsonschema import Draft202012Validator

from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import load, read_layers
from skillopt_ci.config.models import PROVIDERS
from skillopt_ci.config.reference import fields, sections
from skillopt_ci.config.yaml import plain

CONFIGS = Path(__file__).parents[2] / "configs"
#: The providers that have a file: all whose models somebody serves, and the keyless agent.
NAMES = [
    *(name for name, one in PROVIDERS.items() if one.protocol not in ("command", "simulated")),
    "copilot",
]
NAMES.remove("compatible")


def optional_keys(section: type, prefix: str = "") -> Iterator[str]:
    """The dotted paths of all keys that have a default and no keys below them."""
    for name, field in fields(section).items():
        inner = list(sections(field.annotation))
        if len(inner) == 1 and field.default is not None:
            yield from optional_keys(inner[0], f"{prefix}{name}.")
        elif not field.is_required():
            yield f"{prefix}{name}"


@pytest.mark.parametrize("name", NAMES)
def test_every_provider_loads_without_a_warning(name):
    loaded = load(CONFIGS / f"{name}.yaml")
    assert loaded.warnings == ()
    assert {loaded.config.model.target.provider, loaded.config.model.optimizer.provider} == {name}


@pytest.mark.parametrize("name", ["base", *NAMES])
def test_editors_accept_every_file(name):
    file = CONFIGS / f"{name}.yaml"
    schema = json.loads((CONFIGS / "schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(plain(read_layers(file)[-1]))
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"


def test_base_shows_every_key_with_its_default(tmp_path):
    base, bare = (CONFIGS / "base.yaml").read_text("utf-8"), tmp_path / "bare.yaml"
    whole, based = tmp_path / "whole.yaml", tmp_path / "based.yaml"
    whole.write_text(re.sub(r"(?m)^( +)# (?=\w+: \w+ # )", r"\1", base), encoding="utf-8")
    bare.write_text(MINIMAL, encoding="utf-8")
    based.write_text(f"_base_: whole.yaml\n{MINIMAL}", encoding="utf-8")
    assert load(based).config == load(bare).config
    keys, stated = (
        {name for name, _ in leaves(plain(read_layers(file)[-1]))}
        for file in (whole, CONFIGS / "base.yaml")
    )
    assert not {*optional_keys(Config)} - keys, "keys that configs/base.yaml does not show"
    # what a run plans if no file states it
    assert keys - stated == {
        *("train.num_epochs", "gradient.analysts", "evaluation.sel_env_num"),
        *("optimizer.learning_rate", "optimizer.min_learning_rate", "evaluation.gate.look_every"),
    }


def leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every value of a file, mappings included, by its dotted path."""
    yield name.lstrip("."), value
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from leaves(inner, f"{name}.{key}")
