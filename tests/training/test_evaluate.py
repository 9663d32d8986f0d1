import asyncio

import pytest

from skillopt_ci.errors import TooManyErrors
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.summary import TypeScore
from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.final_evaluation import by_type
from skillopt_ci.training.offline_eval import (
    EvaluationResult,
    NamedSkill,
    evaluate_skills,
    tasks_of,
)
from tests.conftest import Checkout

RULE = NamedSkill("rule", "# Items\n\n- Kind a: a number begins with a.\n")


def measure(checkout: Checkout, *skills: NamedSkill, split="test", **how: str) -> EvaluationResult:
    session = checkout.session(*(f"{key}={value}" for key, value in how.items()))
    return asyncio.run(evaluate_skills(session, skills, split))


def task(name: str, task_type: str) -> Task:
    return Task(name, (Message("user", name),), task_type=task_type)


def test_one_skill_is_measured_without_a_comparison(checkout):
    before, found = checkout.git("for-each-ref"), measure(checkout, RULE)
    (only,) = found.skills
    assert (only.skill.name, only.measurement.hard, only.measurement.n) == ("rule", 0.25, 8)
    assert found.difference is None
    assert not found.simulated
    assert checkout.git("for-each-ref") == before  # nothing is recorded in git


def test_two_skills_are_compared_pair_by_pair(checkout, model_server):
    found = measure(checkout, NamedSkill("none", "# Items\n"), RULE)
    assert found.usage.calls == len(model_server.prompts) == 16
    assert (found.difference.mean, found.difference.n) == (0.25, 8)
    assert (found.difference.fixed, found.difference.broken) == (("a200", "a204"), ())


def test_what_an_earlier_command_paid_is_not_charged_again(checkout, model_server):
    first, second = (measure(checkout, RULE) for _ in range(2))
    assert (first.usage.calls, second.usage.calls, len(model_server.prompts)) == (8, 0, 8)


def test_equal_texts_are_measured_once(checkout, model_server):
    found = measure(checkout, RULE, NamedSkill("twin", RULE.text), **{"cache.enabled": "false"})
    assert [one.skill.name for one in found.skills] == ["rule", "twin"]
    assert len(model_server.prompts) == 8


def test_a_few_errors_leave_the_rest_measured(checkout, model_server):
    model_server.trouble = lambda prompt: (500, "down") if "Item 201" in prompt else None
    (only,) = measure(checkout, RULE).skills
    assert (only.measurement.n, only.measurement.errors) == (7, ("b201",))


def test_too_many_errors_are_no_result(checkout, model_server):
    model_server.trouble = lambda prompt: (500, "down")
    with pytest.raises(TooManyErrors, match="8 of 8 test attempts"):
        measure(checkout, RULE)


@pytest.mark.parametrize(
    ("split", "first", "count"),
    [("train", "a0", 8), ("selection", "a100", 8), ("test", "a200", 8), ("all", "a0", 24)],
)
def test_a_split_is_known_by_its_name(checkout, split, first, count):
    tasks = tasks_of(checkout.session(), split)
    assert (tasks[0].id, len(tasks)) == (first, count)


def test_limits_of_the_configuration_hold(checkout):
    session = checkout.session("evaluation.sel_env_num=3", "evaluation.test_env_num=2")
    assert len(tasks_of(session, "selection")) == 3
    assert len(tasks_of(session, "all")) == 8 + 3 + 2


def test_types_are_means_over_what_was_measured():
    tasks = [task("a", "x"), task("b", "x"), task("c", ""), task("d", "x")]
    scores = {"a": (1.0, 1.0), "b": (0.0, 0.5), "c": (1.0, 1.0)}
    found = by_type(tasks, Measurement(hard=0, soft=0, score=0, tasks=scores, errors=("d",)))
    assert found == {"other": TypeScore(hard=1.0, n=1), "x": TypeScore(hard=0.5, n=2)}
