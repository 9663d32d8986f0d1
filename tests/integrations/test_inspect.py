"""Inspect AI's own evaluation of little tasks, with the run's models."""

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from environments import OpenEnvironment, ScriptedModel, attempt, attempt_now, opening, reply
from http_server import Proxy, http_server
from inspect_tasks import FILE
from opened_sides import check_openings

from skillopt_ci.errors import EnvironmentFailure, UsageError
from skillopt_ci.integrations.bridge import unpacked
from skillopt_ci.integrations.inspect import InspectEnvironment, InspectOptions
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.types import ChatRequest, Role
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import Asked, Attempt, Limit, ModelSaid, ToolUsed
from skillopt_ci.scorers.base import GraderError

# Not pytest.importorskip: every process that collects tests would load it for two seconds.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("inspect_ai") is None, reason="inspect is not installed"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    (folder / "sums.py").write_text(FILE, encoding="utf-8")
    (folder / "torn.py").write_text("def x(:", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def opened(root: Path) -> Iterator[OpenEnvironment]:
    """Open environments, each only once: Inspect takes seconds to load."""
    with opening(root) as open_one:
        yield open_one


def options(task: str = "sums.py@sums", **more: Any) -> dict[str, Any]:
    return {"type": "inspect", "task": task, "split": "2:1:1", **more}


CHAT = options("sums.py@chat")
ANEW = {**CHAT, "args": {"judge": "skillopt-ci/judge"}}


def answer_or_grade(request: ChatRequest) -> str:
    return "It is right. GRADE: C" if request.role is Role.JUDGE else "x"


def odd(opened: OpenEnvironment, target: str, **args: bool) -> Any:
    found = opened(options("sums.py@odd", env=["SHOWN"], args=args), SHOWN="yes", HIDDEN="secret")
    return found, task_of(found, target)


def task_of(found: Any, target: str) -> Any:
    tasks = [task for split in ("train", "selection", "test") for task in found.tasks(split)]
    return next(task for task in tasks if task.references == (target,))


def answer(request: ChatRequest) -> Any:
    """Use the tool once, then say what it said."""
    last = request.messages[-1]
    if last.role == "tool":
        return f"The answer is {last.content}"
    number = last.content.rpartition(" ")[2].strip("?")
    return reply("", tool_calls=(ToolCall("c1", "add", f'{{"x": 2, "y": {number}}}'),))


def test_samples_are_tasks_and_are_divided(opened):
    found = opened(options())
    tasks = {name: found.tasks(name) for name in ("train", "selection", "test")}
    assert [len(part) for part in tasks.values()] == [4, 2, 2]
    names = sorted(task.id for part in tasks.values() for task in part)
    assert names == [f"sum-{n}" for n in range(8)]
    (task,) = (one for part in tasks.values() for one in part if one.id == "sum-3")
    told = (task.messages[0].content, task.references, task.task_type)
    assert told == ("What is 2 + 3?", ("5",), "sums")
    assert opened(options()).tasks("train") == tasks["train"]
    assert found.identity()["grading"] == 2  # runs begun by version 1 score their skills again
    with pytest.raises(UsageError, match="nothing is left for train and selection"):
        InspectOptions(task="-", split="1:1:99").divided(found.worker.tasks)


def test_a_conversation_with_choices_keeps_its_turns(opened):
    task = next(iter(opened(CHAT).tasks("train")))
    assert [message.role for message in task.messages] == ["system", "user", "user", "user"]
    assert task.messages[-1].content == "Choices:\n- x\n- y"
    assert task == next(iter(opened(ANEW).tasks("train")))  # shuffled alike
    assert task.references == ("x", "X")


def test_solver_tools_and_scorer_are_inspects_and_the_model_is_ours(opened):
    found = opened(options())
    task = next(iter(found.tasks("train")))
    made = attempt_now(found, task, answer, "# Skill\n\nUse the tool.")
    assert [type(step) for step in made.steps] == [Asked, ModelSaid, ToolUsed, ModelSaid]
    assert made.attempt.messages[0].content == "# Skill\n\nUse the tool."
    assert made.attempt.messages[-1].content == f"The answer is {task.references[0]}"
    assert made.attempt.n_turns == 2
    told = (made.score.hard, made.score.soft, made.score.answer)
    assert told == (1.0, 1.0, f"The answer is {task.references[0]}")
    assert attempt_now(found, task, lambda _: "no idea").score.soft == 0.0


def test_attempts_that_follow_one_another_share_nothing(opened):
    found = opened(options())
    task = next(iter(found.tasks("train")))
    for skill in ("# One", "# Two"):
        made = attempt_now(found, task, answer, skill)
        asked = [(one.role, one.content) for one in made.attempt.messages[:2]]
        assert asked == [("system", skill), ("user", task.messages[0].content)]


@pytest.mark.parametrize("given", [CHAT, ANEW], ids=["role", "name"])
def test_the_judge_grades_by_role_or_name_also_work_that_a_limit_of_inspects_ended(opened, given):
    found = opened(given)
    made = attempt_now(found, next(iter(found.tasks("train"))), answer_or_grade)
    assert (made.attempt.limit, made.score.hard) == (Limit.STEPS, 1.0)
    assert "GRADE: C" in made.score.reason


@pytest.mark.parametrize(
    ("way", "args", "limits", "turns", "soft"),
    [
        ("works", {}, {"steps": 3}, 3, 0.5),
        ("works", {"tokens": 50}, {"tokens": 1000}, 4, 0.5),
        ("works", {"tokens": 50}, {"tokens": 40}, 3, 0.5),
        ("goes on", {}, {"steps": 3}, 3, 0.0),  # it would go on for ever
        ("gives up", {}, {"steps": 3}, 3, 0.0),
    ],
)
def test_the_work_that_a_limit_ended_is_graded_if_it_can(opened, way, args, limits, turns, soft):
    found, note = opened(options("sums.py@endless", args=args)), ToolCall("c1", "note", "{}")

    def script(request: ChatRequest) -> Any:
        asked = request.messages[-1].content == "Is it right?"
        return "graded" if asked else reply("", tool_calls=(note,))

    made = attempt_now(found, task_of(found, way), script, limits=limits)
    assert (made.attempt.limit, made.attempt.n_turns, made.score.soft) == (*limits, turns, soft)
    # a scorer's question is free of the limit
    assert args or way != "works" or made.score.answer == "graded"


def test_a_scorer_that_fails_after_a_limit_is_not_the_models_failure(opened):
    found = opened(options("sums.py@endless", args={}))
    lost = reply("", tool_calls=(ToolCall("c1", "lost", "{}"),))
    with pytest.raises(EnvironmentFailure, match="after a limit: FileNotFound"):  # it finds no note
        attempt_now(found, task_of(found, "works"), lambda _: lost, limits={"steps": 2})


MARKS = {"value": {"form": 10.0, "content": 5.0}, "answer": "", "explanation": "by hand"}


def scored(root: Path, **more: Any) -> Any:
    given = {"task": "-", "scorer": "marks", **more}
    return InspectEnvironment(given, root, {}).score({"scores": {"marks": MARKS}})


@pytest.mark.parametrize(
    ("more", "soft", "hard"),
    [
        ({"scorer": "marks/form", "full_marks": 10}, 1.0, 1.0),
        ({"scorer": "marks/content", "full_marks": 10}, 0.5, 0.0),
        ({"full_marks": 10}, 0.75, 0.0),
        ({"full_marks": 10, "hard_at": 0.7}, 0.75, 1.0),
    ],
)
def test_scores_with_parts_and_marks(root, more, soft, hard):
    found = scored(root, **more)
    assert (found.soft, found.hard, found.reason) == (soft, hard, "by hand")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "the score 'marks' is 7.5"),
        ({"scorer": "marks/other"}, "the score 'marks' is None"),
        ({"scorer": "other"}, "no score called 'other'; there are: marks"),
    ],
)
def test_a_score_that_is_none_is_the_graders_fault(root, more, said):
    with pytest.raises(GraderError) as error:
        scored(root, **more)
    assert said in str(error.value)


def test_a_scorer_that_does_not_end_is_not_the_models_failure(opened):
    async def work() -> None:
        found, place, grades = (opened(CHAT), Workplace("s"), asyncio.Event())

        def script(request: ChatRequest) -> Any:
            if request.role is Role.JUDGE:
                grades.set()
            return "x"

        task = next(iter(found.tasks("train")))
        made = asyncio.create_task(attempt(found, task, ScriptedModel(script), "", place))
        await grades.wait()
        made.cancel()
        await asyncio.wait([made])
        assert place.hindered == ["inspect: the time was over before the answer was graded"]

    asyncio.run(work())


def test_a_broken_solver_is_not_the_models_failure_and_sees_only_what_it_may(opened):
    found, task = odd(opened, "break")
    assert task.messages[0].content == "yes None"
    with pytest.raises(EnvironmentFailure, match="the solver is broken"):
        attempt_now(found, task, answer)
    assert attempt_now(*odd(opened, "break", scored=True), answer).score.soft == 0.5


def test_a_score_of_nan_is_none_and_half_a_surrogate_pair_is_no_defect(opened):
    found, good = odd(opened, "1")
    assert good.metadata["x"] is None
    made = attempt_now(found, good, lambda _: "\ud83d")
    assert made.score.answer == "?"
    assert made.attempt.messages[-1].content == "\ud83d"  # and not what the scorer asked
    with pytest.raises(GraderError, match="is nan, expected a score"):
        attempt_now(found, odd(opened, "nan")[1], lambda _: "?")


def test_an_attempt_without_a_result_scores_nothing(opened):
    found: Any = opened(options())
    cut = Attempt((), "so far", limit=Limit.TIME)
    score = asyncio.run(found.grade(None, cut, None))
    assert (score.hard, score.answer) == (0.0, "so far")
    assert "limit of time" in score.reason
    with pytest.raises(GraderError, match="no readable result"):
        unpacked(b"no tar")


def test_mistakes_are_told_for_people(opened):
    for given, said in (
        ({"type": "inspect"}, "environment.task: missing"),
        (options(scorers="x"), "environment.scorers: unknown key; did you mean 'scorer'?"),
        (options("sums.py"), "environment inspect: 'sums.py' names 5 tasks"),
    ):
        with pytest.raises(UsageError) as error:
            opened(given).tasks("train")
        assert said in str(error.value)


def test_loading_asks_nothing_of_the_network_and_tells_mistakes_for_people(root, monkeypatch):
    cases = [
        ({"task": "sums.py@sums"}, "it opened"),
        ({"task": "sums.py@nothing"}, "Task named 'nothing' not found"),
        ({"task": "missing.py@x"}, "missing.py: cannot be read: No such file or directory"),
        ({"task": "torn.py@x"}, "SyntaxError: invalid syntax (torn.py, line 1)"),
        ({"task": "sums.py@twice"}, "several samples of its dataset have the same id"),
        ({**CHAT, "args": {"judge": "skillopt-ci/grader"}}, "no model skillopt-ci/grader, only"),
    ]
    asked = list[str]()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")  # a table that is there already would do
    with http_server(Proxy, asked=asked) as url:
        monkeypatch.setenv("HTTPS_PROXY", url)
        check_openings(InspectEnvironment.module, root, cases)
    assert asked == []
