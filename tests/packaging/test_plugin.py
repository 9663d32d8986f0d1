"""What other tools read of this repository: the plugin, the skill for agents, the commit hook."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from programs import write_program

from skillopt_ci.cli.main import COMMANDS
from skillopt_ci.demo import write_example
from skillopt_ci.errors import ExitCode
from skillopt_ci.skill.validation import problems

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "skillopt-ci" / "SKILL.md"
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def manifest(name: str) -> Any:
    return json.loads((ROOT / ".claude-plugin" / name).read_text(encoding="utf-8"))


def test_the_marketplace_offers_the_plugin_of_this_folder():
    (offered,) = manifest("marketplace.json")["plugins"]
    assert (ROOT / offered["source"] / ".claude-plugin" / "plugin.json").is_file()
    assert offered["name"] == manifest("plugin.json")["name"] == SKILL.parent.name


def test_the_skill_names_commands_and_exit_codes_that_there_are():
    text = SKILL.read_text(encoding="utf-8")
    assert problems(text, SKILL) == ()
    named = set(re.findall(r"(?:`|^)skillopt-ci ([a-z][a-z-]*)", text, re.MULTILINE))
    assert {"init", "import", "check", "step", "eval", "report"} <= named <= set(COMMANDS)
    codes = set(re.findall(r"^\| (\d+) \|", text, re.MULTILINE))
    assert codes == {str(int(code)) for code in ExitCode} - {"130", "141"}


def test_only_the_skill_that_teaches_is_offered_for_installation():
    ours = ROOT / ".agents" / "skills" / "operate-skillopt-ci" / "SKILL.md"
    head = yaml.safe_load(ours.read_text(encoding="utf-8").split("---")[1])
    assert head["metadata"] == {"internal": True}


@pytest.mark.end_to_end
def test_the_hook_refuses_a_commit_that_breaks_a_task_file(tmp_path):
    """As pre-commit does: the entry, in the repository, with what is staged, and no key."""
    write_example(tmp_path)
    program, *arguments = shlex.split(HOOK["entry"])

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    git("init", "--quiet")
    line = shlex.join([sys.executable, "-m", "skillopt_ci", *arguments])
    write_program(tmp_path / ".git" / "hooks" / "pre-commit", f"exec {line}")
    git("add", "--all")
    first = git("commit", "-m", "Begin")
    assert (program, first.returncode) == ("skillopt-ci", 0), first.stderr
    (tmp_path / "tasks" / "train.jsonl").write_text('{"id": "a"}\n', encoding="utf-8")
    broken = git("commit", "--all", "-m", "Break")
    assert broken.returncode != 0
    assert "train.jsonl:1" in broken.stdout + broken.stderr


@pytest.mark.parametrize(
    ("file", "checked"),
    [
        ("skillopt.yaml", True),
        ("skills/a/SKILL.md", True),
        ("tasks/train.jsonl", True),
        ("tasks/all.csv", True),
        ("src/main.py", False),
    ],
)
def test_the_hook_looks_at_skills_tasks_and_configurations(file, checked):
    assert bool(re.search(HOOK["files"], file)) is checked
