from dataclasses import replace
from pathlib import Path

import pytest

from skillopt_ci.config.rollout import ComputerBlock
from skillopt_ci.config.scorers import ExactScorer
from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import ComputerTask, Task, TaskFile, content_key, task_sha256


def test_content_key_ignores_case_space_and_unicode_variants(make_task):
    left = make_task("a", prompt="Straße  ﬁne\n")
    assert content_key(left) == content_key(make_task("b", prompt=" STRASSE FINE"))


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt": "other"},
        {"messages": (Message("system", "s"), Message("user", "What is it?"))},
        {"files": (TaskFile("a", "text"),)},
    ],
)
def test_content_key_sees_what_is_asked(make_task, changed):
    assert content_key(make_task(**changed)) != content_key(make_task())


def test_renamed_file_asks_the_same(make_task):
    keys = {content_key(make_task(files=(TaskFile(name, "text"),))) for name in "ab"}
    assert len(keys) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"id": "u"},
        {"prompt": "what is it?"},
        {"task_type": "x"},
        {"metadata": {"a": 1}},
        {"files": (TaskFile("a", "text"),)},
        {"scorer": ExactScorer(type="exact")},
    ],
)
def test_task_sha256_sees_every_field(make_task, changed):
    assert task_sha256(make_task(**changed)) != task_sha256(make_task())


def test_task_sha256_sees_the_order_of_references(make_task):
    assert task_sha256(make_task("a", "b")) != task_sha256(make_task("b", "a"))


def test_task_sha256_ignores_where_the_task_was_defined(make_task):
    task = make_task("a")
    assert task_sha256(replace(task, file=Path("x"), line=7)) == task_sha256(task)


def test_another_workspace_asks_something_else(make_task):
    def at(text: str) -> Task:
        return make_task(computer=ComputerTask(ComputerBlock(), (TaskFile("a", text),)))

    assert content_key(at("x")) != content_key(at("y"))
    assert content_key(at("x")) != content_key(make_task())
    assert task_sha256(at("x")) != task_sha256(at("y"))


@pytest.mark.parametrize("block", [{"network": "open"}, {"setup": ("true",)}, {"image": "i"}])
def test_what_a_computer_is_given_changes_the_task(make_task, block):
    plain, other = (ComputerTask(ComputerBlock(**more)) for more in ({}, block))
    assert task_sha256(make_task(computer=plain)) != task_sha256(make_task(computer=other))
