"""The tasks and the checker of ``examples/shell``, held against the office that they come from."""

import subprocess
from pathlib import Path

import pytest
from office_tasks import ROOT, ShellTask, shell_tasks
from shell_office import CONVENTIONS, read_order, script_for

TASKS = shell_tasks()
ALL = frozenset(CONVENTIONS)


def test_an_order_is_read_as_the_checker_has_it():
    for task in TASKS:
        order = read_order(task.prompt)
        assert order is not None
        facts = {name: getattr(order, name) for name in FACTS}
        told = {f"{name}={value}" for name, value in facts.items() if value}
        assert told | {*order.exercised()} == {*task.checks}


FACTS = ("job", "folder", "command", "source", "owner", "message")


def work(task: ShellTask, folder: Path, followed: frozenset[str]) -> None:
    """Write the script of someone who follows just these conventions."""
    order = read_order(task.prompt)
    assert order is not None
    script = script_for(order, followed)
    for name, content in ((task.source, task.content), (script.path, script.content)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / script.path).chmod(0o755 if script.executable else 0o644)


def faults(task: ShellTask, folder: Path) -> tuple[float, set[str]]:
    """Return the share of checks that passed, and what the checker says of the others."""
    folder.mkdir(exist_ok=True)
    (folder / "check.sh").write_bytes((ROOT / "examples/shell/grading/check.sh").read_bytes())
    done = subprocess.run(
        ["sh", "check.sh", *task.checks], cwd=folder, capture_output=True, text=True, check=True
    )
    return float(done.stdout), {line.rstrip(";") for line in done.stderr.splitlines()}


@pytest.mark.parametrize("task", TASKS[:6], ids=lambda task: task.id)
def test_checker_tells_scripts_that_follow_all_conventions_from_those_of_none(task, tmp_path):
    work(task, tmp_path / "told", ALL)
    assert faults(task, tmp_path / "told") == (1.0, set())
    work(task, tmp_path / "untold", frozenset())
    share, said = faults(task, tmp_path / "untold")
    assert said == {CONVENTIONS[name][0] for name in task.checks if name in CONVENTIONS}
    assert 0 < share < 1


@pytest.mark.parametrize("name", CONVENTIONS)
def test_checker_finds_each_fault_by_itself(name, tmp_path):
    task = next(task for task in TASKS if name in task.checks)
    work(task, tmp_path, ALL - {name})
    assert faults(task, tmp_path)[1] == {CONVENTIONS[name][0]}


def test_checker_finds_missing_and_wrong_scripts(tmp_path):
    task, folder = TASKS[0], tmp_path / "wrong"
    assert faults(task, tmp_path / "empty") == (0.0, {"there is no script"})
    work(task, folder, ALL)
    (script,) = folder.rglob("*.sh")
    script.write_text("#!/bin/sh\nset -eu\necho nonsense\n")
    assert "the script does not do its job" in faults(task, folder)[1]
