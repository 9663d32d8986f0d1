import json
import re
from pathlib import Path

import yaml
from pydantic import BaseModel

from skillopt_ci.environments.api import split_tasks
from skillopt_ci.environments.find import BUILT_IN, open_environment
from skillopt_ci.integrations.inspect import InspectOptions
from skillopt_ci.integrations.promptfoo import SUPPORTED, PromptfooOptions
from skillopt_ci.integrations.skillopt.adapter import SkillOptOptions
from skillopt_ci.rollout.environment import Environment

PAGE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")
OPTIONS: dict[str, type[BaseModel]] = {
    "inspect": InspectOptions,
    "promptfoo": PromptfooOptions,
    "skillopt": SkillOptOptions,
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_class_is_one_that_works(tmp_path):
    (tmp_path / "environment.py").write_text(blocks("python")[0], encoding="utf-8")
    riddles = [{"id": str(n), "prompt": f"p{n}", "references": ["r"]} for n in range(8)]
    lines = "".join(json.dumps(one) + "\n" for one in riddles)
    (tmp_path / "riddles.jsonl").write_text(lines, encoding="utf-8")
    found = open_environment(yaml.safe_load(blocks("yaml")[0])["environment"], tmp_path, {})
    assert len(split_tasks(found, "train")) == 4
    assert found.grades


def test_every_bridge_is_shown_with_all_its_options():
    shown = [yaml.safe_load(block) for block in blocks("yaml")]
    bridges = {
        one["environment"]["type"]: one["environment"]
        for one in shown
        if isinstance(one, dict) and isinstance(one.get("environment"), dict)
    }
    assert bridges.keys() == BUILT_IN.keys() == OPTIONS.keys()
    for name, options in bridges.items():
        assert options.keys() - {"type"} == OPTIONS[name].model_fields.keys(), name


def test_every_assertion_type_is_named():
    named = set(re.findall(r"`([\w-]+)`", PAGE))
    assert named >= set(SUPPORTED)
    named = set(re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE))
    own = {name for name, one in vars(Environment).items() if callable(one) and name[0] != "_"}
    assert named == own
