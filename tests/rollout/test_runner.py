import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
import virtual_time
from rollout_values import ScriptedModel, Solving, make_task

from skillopt_ci.aio import Slots
from skillopt_ci.config.rollout import RolloutConfig
from skillopt_ci.config.scorers import CommandScorer, ExactScorer
from skillopt_ci.errors import BudgetExhausted, ModelSetupError
from skillopt_ci.model import retry
from skillopt_ci.model.types import ModelRefusal, ModelUnavailable
from skillopt_ci.progress import silent
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.rollout.attempt import AttemptRunner, Runner
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.solver import ChatSolver, Solver, Workplace
from skillopt_ci.rollout.types import Attempt, AttemptRequest, MakeAttempt, Rollout, Status
from skillopt_ci.scorers.code import Functions
from skillopt_ci.tasks.task import Task

SCORERS = TaskScorers(ExactScorer(type="exact"), judge=None, root=Path(), functions=Functions({}))


def runner(solver: Solver, concurrency: int = 3, **settings: int) -> Runner:
    return Runner(AttemptRunner(solver, SCORERS, RolloutConfig(**settings)), Slots(concurrency))


def roll_out(
    model: ScriptedModel,
    *tasks: Task,
    numbers: Iterable[int] = (0,),
    done: Callable[[Rollout], None] = silent,
) -> tuple[Rollout, ...]:
    chat = runner(ChatSolver(model, Prompts.load()))
    requests = [AttemptRequest(task, "Skill.", "rollout", n) for task in tasks for n in numbers]
    return asyncio.run(chat.carry_out(requests, done))


def requests(tasks: Iterable[Task]) -> Iterator[AttemptRequest]:
    return (AttemptRequest(task, "", "s") for task in tasks)


def stream(runner: Runner, tasks: Iterable[Task]) -> AsyncGenerator[Rollout, None]:
    return runner.stream(requests(tasks))


def test_results_are_scored_and_in_task_order():
    model = ScriptedModel(lambda text: text if text != "b" else "something else")
    found = roll_out(model, *map(make_task, "abc"), numbers=(1,))
    told = [(one.task_id, one.hard, one.attempt) for one in found]
    assert told == [("a", 1.0, 1), ("b", 0.0, 1), ("c", 1.0, 1)]


def test_nobody_polls_for_the_next_task():
    """A free place is taken at once: many quick tasks, one at a time, wait for no timer."""
    tasks = [make_task(str(number)) for number in range(100)]

    async def work() -> float:
        chat = runner(ChatSolver(ScriptedModel(str), Prompts.load()), concurrency=1)
        before = asyncio.get_running_loop().time()
        await chat.carry_out(requests(tasks))
        return asyncio.get_running_loop().time() - before

    assert virtual_time.run(work()) == 0.0


def test_each_result_is_told_when_it_comes():
    told: list[Rollout] = []
    found = roll_out(ScriptedModel(str), make_task("a"), make_task("b"), done=told.append)
    assert sorted(one.task_id for one in told) == [one.task_id for one in found]


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (ModelRefusal("content filter"), Status.REFUSED),
        (ModelUnavailable("still 500"), Status.ERROR),
    ],
)
def test_a_failure_of_one_task_is_its_own_outcome(failure, status):
    model = ScriptedModel(lambda text: failure if text == "a" else text)
    bad, good = roll_out(model, make_task("a", task_type="kind"), make_task("b"))
    assert (bad.status, bad.hard, bad.reason) == (status, 0.0, str(failure))
    assert (bad.task_type, good.status) == ("kind", Status.SCORED)


def test_a_scorer_that_fails_leaves_the_answer_ungraded(monkeypatch):
    monkeypatch.setattr(retry, "_FIRST_BACKOFF", 0.0)
    broken = CommandScorer(type="command", command=("/nonexistent/scorer",))
    (found,) = roll_out(ScriptedModel(str), make_task("a", scorer=broken))
    assert (found.status, found.hard, found.answer) == (Status.GRADER_ERROR, 0.0, "a")
    assert found.messages[-1].content == "a"
    assert found.reason


def test_every_attempt_at_a_task_is_made_and_they_stand_together():
    model = ScriptedModel(str)
    found = roll_out(model, make_task("a"), make_task("b"), numbers=range(3))
    told = [(one.task_id, one.attempt) for one in found]
    assert told == [(task, attempt) for task in "ab" for attempt in range(3)]
    assert {request.attempt for request in model.requests} == {0, 1, 2}


class Gate:
    """Solvers that wait for each other: the number under way at once, and who may end."""

    def __init__(self) -> None:
        self.under_way = self.most = 0
        self.turn: dict[str, asyncio.Event] = {}

    async def work(self, task: Task, place: Workplace) -> AsyncIterator[Attempt]:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.turn.setdefault(task.id, asyncio.Event()).wait()
        finally:
            self.under_way -= 1
        yield Attempt((), task.id)

    def end(self, *names: str) -> None:
        for name in names:
            self.turn.setdefault(name, asyncio.Event()).set()


def test_results_come_as_they_are_ready():
    gate = Gate()
    gate.end("c")

    async def work() -> list[str]:
        came = []
        results = stream(runner(Solving(gate.work)), map(make_task, "abc"))
        async with aclosing(results):
            async for one in results:
                came.append(one.task_id)
                gate.end({"c": "b", "b": "a"}.get(one.task_id, ""))
        return came

    assert asyncio.run(work()) == ["c", "b", "a"]


def test_no_more_attempts_than_allowed_are_under_way_in_several_calls_together():
    async def work() -> int:
        gate, names = Gate(), [f"t{number}" for number in range(20)]
        gate.end(*names[10:])
        both = runner(Solving(gate.work), concurrency=4)
        halves = [requests(map(make_task, part)) for part in (names[:10], names[10:])]
        calls = [asyncio.create_task(both.carry_out(half)) for half in halves]
        for _ in range(20):  # until all that may begin has begun
            await asyncio.sleep(0)
        gate.end(*names)
        await asyncio.gather(*calls)
        return gate.most

    assert asyncio.run(work()) == 4


def test_a_stream_begins_only_what_is_soon_taken():
    async def at_once(task: Task, place: Workplace) -> AsyncIterator[Attempt]:
        yield Attempt((), task.id)

    async def work() -> int:
        solver = Solving(at_once)
        tasks = (make_task(f"t{number}") for number in range(10_000))
        results = stream(runner(solver, concurrency=2), tasks)
        async with aclosing(results):
            await anext(results)
            for _ in range(200):
                await asyncio.sleep(0)
        return len(solver.done)

    assert asyncio.run(work()) <= 9


def test_giving_up_a_stream_ends_what_is_under_way():
    async def work() -> int:
        gate = Gate()
        gate.end("a")
        results = stream(runner(Solving(gate.work)), map(make_task, "abc"))
        async with aclosing(results):
            await anext(results)
        return gate.under_way

    assert asyncio.run(work()) == 0


@pytest.mark.parametrize("failure", [ModelSetupError("wrong key"), BudgetExhausted("spent")])
def test_a_failure_of_all_tasks_ends_a_stream(failure):
    model = ScriptedModel(lambda text: failure if text == "t2" else text)

    async def work() -> None:
        chat = runner(ChatSolver(model, Prompts.load()))
        tasks = [make_task(f"t{number}") for number in range(50)]
        async for _ in stream(chat, tasks):
            pass

    with pytest.raises(type(failure)):
        asyncio.run(work())


def test_an_executor_may_make_attempts_elsewhere():
    sent: list[AttemptRequest] = []

    async def elsewhere(order: AttemptRequest, here: MakeAttempt) -> Rollout:
        sent.append(order)
        return await here(order)

    attempting = AttemptRunner(ChatSolver(ScriptedModel(str), Prompts.load()), SCORERS)
    work = Runner(attempting, Slots(2), executor=elsewhere)
    found = asyncio.run(work.carry_out([AttemptRequest(make_task("a"), "Skill.", "rollout")]))
    assert [(one.task.id, one.skill, one.stage) for one in sent] == [("a", "Skill.", "rollout")]
    assert [one.hard for one in found] == [1.0]
