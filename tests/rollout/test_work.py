"""What a solver does is held to its limits, whatever it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import virtual_time
from rollout_values import Solving, Work, make_task

from skillopt_ci.config.rollout import AttemptLimits
from skillopt_ci.errors import UsageError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model import types
from skillopt_ci.rollout.limits import LimitedClient, Transcript, run_solver
from skillopt_ci.rollout.solver import Workplace
from skillopt_ci.rollout.types import (
    AgentError,
    Asked,
    Attempt,
    Limit,
    ModelSaid,
    Nudged,
    Step,
    StepGraded,
    Told,
    ToolUsed,
)
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.tasks.task import Task

CALL = types.Usage(calls=1, prompt_tokens=8, completion_tokens=2, cost_usd=0.5)


def said(text: str) -> ModelSaid:
    return ModelSaid(Message("assistant", text), CALL)


def used(name: str) -> ToolUsed:
    return ToolUsed(ToolCall(name, "shell", "{}"), f"output of {name}", exit_code=0)


def do(
    behaviour: Work,
    limits: AttemptLimits | None = AttemptLimits(),  # noqa: B008 - immutable
    **place: Any,
) -> tuple[Attempt, list[Step]]:
    told: list[Step] = []
    task = make_task("a")
    done = run_solver(
        Solving(behaviour),
        task,
        "Skill.",
        replace(Workplace("s", limits=limits or AttemptLimits()), **place),
        limits=limits,
        grade_every_step=True,
        told=told.append,
        so_far=Transcript(task.messages),
    )
    return virtual_time.run(done), told


def doing(*deeds: Any) -> Work:
    """A solver's behaviour: it tells these in turn, and raises those that are errors."""

    async def work(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        for deed in deeds:
            if isinstance(deed, BaseException):
                raise deed
            yield deed

    return work


async def endless(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
    yield Asked((Message("system", "work"), Message("user", task.id)))
    for number in range(1_000):
        cost = None if number == 1 else CALL.cost_usd  # its price is unknown
        yield ModelSaid(Message("assistant", f"turn {number}"), replace(CALL, cost_usd=cost))
        yield used(f"tool {number}")
        await asyncio.sleep(10)


async def recovers(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
    async def fail() -> None:
        raise ValueError

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
    yield said("hello")
    await asyncio.sleep(10)


def test_what_is_told_makes_the_conversation():
    asked, plan = Asked((Message("user", "Do it."),)), Told("plan", "first this")
    steps = (asked, said("I look."), used("ls"), Nudged("Go on."), plan, said("Done."))
    worked, told = do(doing(*steps, Attempt((), "the answer", n_turns=2)))
    assert [(one.role, one.content) for one in worked.messages] == [
        ("user", "Do it."),
        ("assistant", "I look."),
        ("tool", "output of ls"),
        ("user", "Go on."),
        ("assistant", "Done."),
    ]
    assert worked.usage == CALL + CALL
    assert (worked.ending, worked.response, worked.limit) == ("done", "the answer", None)
    assert told == [*steps]


@pytest.mark.parametrize(
    ("limits", "limit", "turns"),
    [
        ({"steps": 3}, Limit.STEPS, 3),
        ({"steps": 1}, Limit.STEPS, 1),
        ({"tokens": 30, "steps": None}, Limit.TOKENS, 3),
        ({"tokens": 31, "steps": None}, Limit.TOKENS, 4),
        ({"cost_usd": 1.0, "steps": None}, Limit.COST, 3),
        ({"rollout_seconds": 25.0, "steps": None}, Limit.TIME, 3),
    ],
)
def test_a_limit_ends_the_work_and_what_was_done_stands(limits, limit, turns):
    worked, told = do(endless, AttemptLimits(**limits))
    assert (worked.ending, worked.limit, worked.n_turns) == ("done", limit, turns)
    assert worked.response == f"turn {turns - 1}"
    assert sum(isinstance(step, ModelSaid) for step in told) == turns
    assert sum(isinstance(step, ToolUsed) for step in told) == turns


def test_a_call_beyond_the_limit_is_not_even_made():
    calls: list[types.Role] = []

    class Server:
        async def complete(self, request: types.ChatRequest) -> types.ChatReply:
            calls.append(request.role)
            return types.ChatReply("more", "stop", "m", CALL)

    async def asks(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        client = LimitedClient(Server())
        while True:
            await client.complete(types.ChatRequest(types.Role.JUDGE, "judge", ()))
            asked = types.ChatRequest(types.Role.TARGET, "s", ())
            async with asyncio.TaskGroup() as group:
                reply = group.create_task(client.complete(asked))
            yield ModelSaid(Message("assistant", reply.result().text), reply.result().usage)

    worked, _ = do(asks, AttemptLimits(steps=3))
    assert calls.count(types.Role.TARGET) == 3
    assert (worked.limit, worked.n_turns) == (Limit.STEPS, 3)


def test_without_limits_work_takes_its_time_and_a_limit_that_the_solver_names_itself_is_kept():
    graceful = doing(Attempt((), "as far as I came", limit=Limit.TOKENS))
    assert do(graceful)[0].limit is Limit.TOKENS

    async def slow(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        await asyncio.sleep(1_000_000)
        yield Attempt((), "late")

    assert do(slow, None)[0].response == "late"


@pytest.mark.parametrize(
    ("deeds", "ending", "reason"),
    [
        ([said("hello"), AgentError("exit status 3")], "agent_error", "exit status 3"),
        ([said("hello"), types.ModelRefusal("content filter")], "refused", "content filter"),
    ],
)
def test_a_solver_that_breaks_is_an_outcome_of_its_own(deeds, ending, reason):
    worked, _ = do(doing(*deeds))
    assert worked.ending == ending
    assert reason in worked.reason


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (doing(said("hello"), RuntimeError("a bug")), r"raised RuntimeError: a bug \(.*test_work"),
        (
            doing(TimeoutError("its own")),
            "environment: the solver test raised TimeoutError: its own",
        ),
        (doing(asyncio.CancelledError("by nobody else")), "raised CancelledError: by nobody else"),
        (doing(SystemExit("bye")), "raised SystemExit: bye"),
        (recovers, "ended without an Attempt"),
        (doing(Attempt((), "one"), Attempt((), "two")), "one Attempt, not Attempt"),
        (doing("hello"), "one Attempt, not 'hello'"),
        (lambda task, place: ["hello"], r"solve\(\) returned \['hello'\]"),
        (doing(Attempt((), None)), "Messages and a response"),  # type: ignore[arg-type]
        (doing(Attempt(({"role": "user"},), "")), "Messages and a response"),  # type: ignore[arg-type]
    ],
)
def test_any_other_failure_ends_the_run_and_names_the_solver(work, told):
    with pytest.raises(UsageError, match=told):
        do(work)


def test_a_solver_that_is_cut_off_can_clean_up():
    ended = []

    async def tidy(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        try:
            async for step in endless(task, place):
                yield step
        finally:
            ended.append(task.id)

    async def silent(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        with suppress(asyncio.CancelledError):
            async for step in tidy(task, place):
                yield step

    def wrapped(task: Task, place: Workplace) -> Any:  # an iterator, but no generator
        steps: Any = tidy(task, place)
        return type("", (), {"__aiter__": lambda _: steps, "aclose": lambda _: steps.aclose()})()

    do(wrapped, AttemptLimits(steps=2))
    assert do(silent, AttemptLimits(rollout_seconds=5))[0].limit == Limit.TIME
    assert ended == ["a", "a"]
    assert do(recovers, AttemptLimits(rollout_seconds=5))[0].limit == Limit.TIME


def test_every_tool_use_is_graded_off_the_clock():
    scores = iter([0.25, 0.5, 0.75])

    async def grade() -> Score:
        await asyncio.sleep(1_000)
        return Score(0.0, next(scores), "so far", "")

    worked, told = do(endless, AttemptLimits(rollout_seconds=25), grade_now=grade)
    assert [score.soft for score in worked.progress] == [0.25, 0.5, 0.75]
    assert sum(isinstance(step, StepGraded) for step in told) == 3


@pytest.mark.parametrize(
    "failure",
    [GraderError("no report"), types.ModelRefusal("a filter"), types.ModelUnavailable("down")],
)
def test_a_grader_that_fails_on_the_way_does_not_end_the_work(failure):
    async def grade() -> Score:
        raise failure

    worked, _ = do(endless, AttemptLimits(steps=2), grade_now=grade)
    assert (worked.progress, worked.n_turns) == ((), 2)
