"""Files of other tools, as far as they can be used."""

from __future__ import annotations

import json

import pytest
import yaml


@pytest.mark.parametrize(
    "assertion",
    [
        {"type": "javascript", "value": "output.length > 3"},
        {"type": "python", "value": "len(output) > 3"},
    ],
    ids=lambda assertion: assertion["type"],
)
def test_promptfoos_other_tests_are_tasks_all_the_same(checkout, cli, assertion):
    tests = [
        {"vars": {"q": f"Say {number}"}, "assert": [{"type": "contains", "value": str(number)}]}
        for number in range(19)
    ]
    tests.append({"vars": {"q": "Say more"}, "assert": [assertion]})
    promptfoo = {"prompts": ["{{q}}"], "providers": ["echo"], "tests": tests}
    checkout.write("promptfooconfig.yaml", yaml.safe_dump(promptfoo))
    file = checkout.folder / "skillopt.yaml"
    ours = yaml.safe_load(file.read_text(encoding="utf-8"))
    kept = {key: value for key, value in ours.items() if key not in ("tasks", "scorer")}
    environment = {"type": "promptfoo", "file": "promptfooconfig.yaml", "split": "2:1:7"}
    checkout.write("skillopt.yaml", yaml.safe_dump({**kept, "environment": environment}))
    done = cli(checkout.folder, "check", "--json")
    errors = [one for one in json.loads(done.out)["findings"] if one["level"] == "error"]
    assert errors == []
