"""The tasks and the checker of ``examples/shell``, held against the office that they come from."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.demo.world import Dice
from tests.support.office_tasks import ALL_SHELL, ROOT, ShellTask, shell_tasks, write_order
from tests.support.shell_office import ACTIONS, CONVENTIONS, Order, read_order, script_for

CHECKER = ROOT / "examples/shell/grading/check.sh"
TASKS = shell_tasks(7, 60)

ORDERS = st.builds(
    Order,
    job=st.lists(st.sampled_from(["tidy", "logs", "sync", "stock"]), min_size=1, max_size=3).map(
        " ".join
    ),
    action=st.sampled_from([*ACTIONS]),
    source=st.sampled_from(["data/a.txt", "in.csv", "x-1/y_2.log"]),
    folder=st.sampled_from(["", "bin", "tools"]),
    owner=st.sampled_from(["", "Ann Example"]),
    message=st.sampled_from(["", "on it"]),
    careful=st.booleans(),
    kept=st.booleans(),
    needed=st.booleans(),
    direct=st.booleans(),
)


@given(ORDERS, st.text(max_size=5))
def test_order_is_read_as_it_was_written(order, key):
    assert read_order(f"Do this.\n\nOrder: {write_order(order, Dice(0, key))}") == order


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
    (folder / "check.sh").write_bytes(CHECKER.read_bytes())
    done = subprocess.run(
        ["sh", "check.sh", *task.checks], cwd=folder, capture_output=True, text=True, check=True
    )
    return float(done.stdout), {line.rstrip(";") for line in done.stderr.splitlines()}


@pytest.mark.parametrize("task", TASKS[:6], ids=lambda task: task.id)
def test_checker_tells_scripts_that_follow_all_conventions_from_those_that_follow_none(
    task, tmp_path
):
    work(task, tmp_path / "told", ALL_SHELL)
    assert faults(task, tmp_path / "told") == (1.0, set())
    work(task, tmp_path / "untold", frozenset())
    share, said = faults(task, tmp_path / "untold")
    assert said == {CONVENTIONS[name][0] for name in task.checks if name in CONVENTIONS}
    assert 0 < share < 1


@pytest.mark.parametrize("name", CONVENTIONS)
def test_checker_finds_each_fault_by_itself(name, tmp_path):
    task = next(task for task in TASKS if name in task.checks)
    work(task, tmp_path, ALL_SHELL - {name})
    assert faults(task, tmp_path)[1] == {CONVENTIONS[name][0]}


def test_checker_finds_missing_and_wrong_scripts(tmp_path):
    task, folder = TASKS[0], tmp_path / "wrong"
    assert faults(task, tmp_path / "empty") == (0.0, {"there is no script"})
    work(task, folder, ALL_SHELL)
    (script,) = folder.rglob("*.sh")
    script.write_text("#!/bin/sh\nset -eu\necho nonsense\n")
    assert "the script does not do its job" in faults(task, folder)[1]
