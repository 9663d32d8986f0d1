from dataclasses import replace

import pytest
from run_views import REPOSITORY, SHA, altered, plain_run

from skillopt_ci.github.types import WantedCheck
from skillopt_ci.report.comment import TaskPlace, step_check
from skillopt_ci.report.markdown import Links
from skillopt_ci.report.view import RunView

LINKS = Links(REPOSITORY, f"{REPOSITORY}/actions/runs/7")
TASKS = {f"task-{n}": TaskPlace("tasks/selection.jsonl", n + 1) for n in range(40)}


def check(run: RunView, inconclusive: str = "") -> WantedCheck:
    return step_check(replace(run, inconclusive=inconclusive), LINKS, tasks=TASKS)


def test_it_is_on_the_commit_that_was_judged_and_annotates_tasks_broken_ones_first():
    found = check(run := plain_run(1))
    assert (found.name, found.head_sha) == ("skillopt-ci / demo", SHA)
    assert found.details_url == f"{REPOSITORY}/actions/runs/7"
    first, second, third = found.annotations
    place = (first.path, first.start_line, first.annotation_level)
    assert place == ("tasks/selection.jsonl", 4, "warning")
    assert first.message == "Task task-3: solved before this change, not after it."
    assert (second.start_line, third.start_line) == (2, 3)
    step = altered(run.steps[0], {"broken": tuple(TASKS), "fixed": tuple(TASKS)})
    assert len(check(replace(run, steps=(step,))).annotations) == 50


@pytest.mark.parametrize(
    ("steps", "why", "conclusion"),
    [(1, "", "success"), (2, "", "neutral"), (0, "", "neutral"), (1, "no money left", "neutral")],
)
def test_only_what_was_measured_to_be_better_is_green(steps, why, conclusion):
    assert check(plain_run(steps), why).conclusion == conclusion


def test_what_an_open_gate_let_in_is_not_green_by_that():
    run = plain_run(2)
    step = altered(run.steps[-1], {"action": "force_accept"})
    assert check(replace(run, steps=(step,))).conclusion == "neutral"
    found = check(plain_run(1), "the network failed")
    assert (found.title, found.annotations) == ("the network failed", ())
