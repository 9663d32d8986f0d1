import ast
import json
import re
import shlex
import subprocess
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema
from doc_blocks import Block, all_blocks, commands, documents, run_in

from skillopt_ci.cli.main import cli
from skillopt_ci.cli.options import Globals
from skillopt_ci.config.loading import load
from skillopt_ci.config.reference import json_schema
from skillopt_ci.tasks.loading import load_tasks

LANGUAGES = {
    *("yaml", "json", "jsonl", "sh", "console", "python"),
    *("toml", "markdown", "text", "diff", ""),
}
BLOCKS = all_blocks()
MINIMAL = """\
run: example
skill: SKILL.md
model:
  target: {provider: openai, model: small}
  optimizer: {provider: openai, model: large}
"""
TASKS = "tasks: {train: train.jsonl, selection: selection.jsonl, test: test.jsonl}\n"
#: Keys that only workflows have, at their top, in a job or in a step.
WORKFLOW = {"on", "jobs", "permissions", "steps", "uses", "runs-on", "concurrency", "secrets"}
#: Other programs' files: read as YAML, and used by the page that shows them.
FOREIGN = {"promptfooconfig.yaml", ".pre-commit-config.yaml"}


def of(*languages: str) -> Any:
    chosen = [block for block in BLOCKS if block.language in languages]
    return pytest.mark.parametrize("block", chosen, ids=str)


def test_every_language_is_one_that_is_checked():
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []


def test_a_remark_before_a_block_is_one_that_is_understood():
    excused = [block for block in BLOCKS if block.remark.startswith("not")]
    strange = [str(one) for one in excused if not re.match(r"not run: \w.{8,}", one.remark)]
    assert strange == []


@of("yaml")
def test_yaml_is_a_configuration_a_workflow_or_tasks(block, tmp_path):
    value = read_yaml(block.text)
    if block.title in FOREIGN:
        assert value
    elif is_workflow(value):
        check_workflow(value)
    elif isinstance(value, list):
        check_tasks(block.text, tmp_path / "tasks.yaml")
    else:
        check_configuration(block, value, tmp_path)


def read_yaml(text: str) -> Any:
    value = yaml.safe_load(text)
    # YAML of old reads a bare `on` as true
    renamed = isinstance(value, dict) and True in value
    return {"on" if key is True else key: part for key, part in value.items()} if renamed else value


def is_workflow(value: Any) -> bool:
    if isinstance(value, list):
        return not any(part.keys() & {"prompt", "messages"} for part in value)
    return any(isinstance(one, dict) and one.keys() & WORKFLOW for one in [value, *value.values()])


def check_workflow(value: Any) -> None:
    """Validate a workflow, some of its keys, some jobs or some steps."""
    job = {"runs-on": "ubuntu-24.04", "steps": [{"run": "true"}]}
    if isinstance(value, dict) and "secrets" in value:
        value = {"a": {"uses": "owner/repository/.github/workflows/a.yml@v1", **value}}
    if isinstance(value, list):
        value = {"jobs": {"a": {**job, "steps": value}}}
    elif not value.keys() & {"on", "jobs", "permissions", "concurrency", "name", "env"}:
        value = {"jobs": value}
    jsonschema.validate({"on": "push", "jobs": {"a": job}, **value}, workflow_schema())


@cache
def workflow_schema() -> dict[str, Any]:
    return get_builtin_schema("vendor.github-workflows")


def check_tasks(text: str, file: Path) -> None:
    file.write_text(text, encoding="utf-8")
    tasks, problems = load_tasks(file)
    assert tasks
    assert not problems


def check_configuration(block: Block, value: dict[str, Any], folder: Path) -> None:
    """Load a whole configuration, or a part of one laid over a minimal one."""
    file = folder / "skillopt.yaml"
    text = block.text
    if "_base_" in value:
        base = folder / value["_base_"]
        base.parent.mkdir(parents=True, exist_ok=True)
        base.write_text(MINIMAL, encoding="utf-8")
    elif not value.keys() & {"run", "runs", "env"}:
        (folder / "minimal.yaml").write_text(
            MINIMAL + ("" if value.keys() & {"tasks", "environment"} else TASKS), encoding="utf-8"
        )
        text = f"_base_: minimal.yaml\n{text}"
    file.write_text(text, encoding="utf-8")
    for run in [entry["run"] for entry in value.get("runs", [])] or [None]:
        load(file, run=run)


@of("json", "jsonl")
def test_json_is_tasks_or_an_object(block, tmp_path):
    lines = block.text.splitlines() if block.language == "jsonl" else [block.text]
    values = [json.loads(line) for line in lines]
    assert all(isinstance(value, dict) for value in values)
    if all(value.keys() & {"prompt", "messages"} for value in values):
        text = "".join(json.dumps(value) + "\n" for value in values)
        check_tasks(text, tmp_path / "tasks.jsonl")


def test_toml_parses():
    for block in BLOCKS:
        if block.language == "toml":
            assert tomllib.loads(block.text), block


@of("python")
def test_python_compiles(block):
    assert ast.parse(textwrap.dedent(block.text), str(block)).body


@of("sh", "console")
def test_shell_lines_can_be_parsed(block):
    for command in commands(block):
        done = subprocess.run(
            ["bash", "-n", "-c", command.line], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@of("sh", "console")
def test_options_and_keys_of_commands_exist(block):
    for command in commands(block):
        for words in invocations(command.line):
            check_invocation(words)


def invocations(text: str) -> list[list[str]]:
    """The words of each call of skillopt-ci in a shell line, without the program's name."""
    found: list[list[str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        current: list[str] | None = None
        for word in lexer:
            if word == "skillopt-ci":
                found.append(current := [])
            elif set(word) <= set("();<>|&"):
                current = None
            elif current is not None:
                current.append(word)
    return found


def check_invocation(words: list[str]) -> None:
    """Parse a command line as the program does, and look up the keys that it overrides."""
    settings = Globals(environ={}, cwd=Path("/"))
    group: click.Command = cli
    context = cli.make_context("skillopt-ci", words.copy(), obj=settings, resilient_parsing=True)
    while isinstance(group, click.Group) and context._protected_args + context.args:
        name, inner, rest = group.resolve_command(context, context._protected_args + context.args)
        assert inner is not None
        group = inner
        context = inner.make_context(name, rest, parent=context, obj=context.obj)
    for override in context.obj.overrides:
        assert_key(override.partition("=")[0])


def assert_key(path: str) -> None:
    schema = json_schema()
    at: list[Any] = [schema]
    for key in path.split("."):
        at = [part["properties"][key] for part in at if key in part.get("properties", {})]
        assert at, f"there is no key {path}"
        at = [resolved for part in at for resolved in targets(schema, part)]


def targets(schema: Any, part: Any) -> list[Any]:
    if "$ref" in part:
        return targets(schema, schema["$defs"][part["$ref"].rpartition("/")[2]])
    options = [*part.get("anyOf", []), *part.get("oneOf", [])]
    return [found for option in options for found in targets(schema, option)] or [part]


def test_a_page_that_is_run_says_so_at_its_top():
    late = [file for file in documents() if run_in(file) and not top(file).startswith("<!-- run")]
    assert late == []


def top(file: Path) -> str:
    return file.read_text(encoding="utf-8").splitlines()[0]
