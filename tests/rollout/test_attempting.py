"""One attempt from order to result: infrastructure is retried, what was paid for is kept."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from rollout_values import PLACES, ScriptedModel, Solving, make_task
from virtual_time import pass_time

from skillopt_ci.aio import siblings
from skillopt_ci.config.config import Limits
from skillopt_ci.config.rollout import AttemptLimits, ComputerBlock, RolloutConfig
from skillopt_ci.config.scorers import ComputerScorer, ExactScorer, ScorerSpec
from skillopt_ci.errors import BudgetExhausted, ComputerFailure, UsageError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.budget import Meter
from skillopt_ci.model.types import (
    Account,
    ModelRefusal,
    ModelUnavailable,
    RequestTooLarge,
    Role,
    Usage,
    by_stage,
)
from skillopt_ci.prompts.library import Prompts
from skillopt_ci.redaction import HIDDEN, Redactor
from skillopt_ci.rollout import types
from skillopt_ci.rollout.attempt import AttemptRunner, Grading
from skillopt_ci.rollout.computer_pool import ComputerPool
from skillopt_ci.rollout.events import AttemptEnded, RolloutEvent, TryFailed, WorkEnded
from skillopt_ci.rollout.graders import TaskScorers
from skillopt_ci.rollout.solver import ChatSolver, Solver, Workplace
from skillopt_ci.rollout.store import AttemptCache, AttemptStore
from skillopt_ci.rollout.types import AgentError, Attempt, AttemptRequest, ModelSaid, Status, Step
from skillopt_ci.scorers.base import GraderError, Score
from skillopt_ci.scorers.code import Functions
from skillopt_ci.skill.regions import SLOW_UPDATE, with_region
from skillopt_ci.tasks.task import ComputerTask, Task, TaskFile

JUDGE = Account(Role.JUDGE, "judge")
PAID = Usage(calls=2, prompt_tokens=100, completion_tokens=10, cost_usd=0.25)
SOLVED = ComputerScorer(type="computer", command=("grep", "-qx", "done", "result.txt"))


@dataclass
class Lab:
    """An attempt's surroundings; ``events`` were recorded, ``pauses`` are those that were made."""

    places: ComputerPool | None = None
    store: AttemptStore | None = None
    scorer: ScorerSpec = field(default_factory=lambda: ExactScorer(type="exact"))
    grader: Grading | None = None
    scope: str = "step 1"
    settings: RolloutConfig = field(default_factory=RolloutConfig)
    meter: Meter = field(default_factory=Meter)
    events: list[RolloutEvent] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def attempting(self, solver: Solver) -> AttemptRunner:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        scorers = TaskScorers(
            self.scorer, judge=None, root=Path(), functions=Functions({}), pool=self.places
        )
        shelf = None
        if self.store is not None:
            shelf = AttemptCache(self.store, {"solver": solver.identity()}, self.scope, self.meter)
        return AttemptRunner(
            solver,
            self.grader or scorers,
            self.settings,
            self.places,
            shelf,
            self.meter,
            self.events.append,
            sleep,
            lambda: 1.0,
        )

    def attempt(self, solver: Solver, task: Task, number=0, skill="S") -> types.Rollout:
        return asyncio.run(self.attempting(solver)(AttemptRequest(task, skill, "rollout", number)))


def answering(*endings: object) -> object:
    """A solver's behaviour: fails in turn with each of the ``endings`` that are errors."""
    left = list(endings)

    async def work(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        ending = left.pop(0) if left else task.id
        yield ModelSaid(Message("assistant", "thinking"), Usage())
        if isinstance(ending, Exception):
            raise ending
        yield Attempt((Message("user", task.id),), str(ending), usage=PAID)

    return work


def writing(text: str, limit: types.Limit | None = None) -> object:

    async def work(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        await place.computer.write("result.txt", text.encode())
        yield types.ToolUsed(ToolCall("1", "write", "{}"), "written")
        yield Attempt((), "see result.txt", limit=limit, usage=PAID)

    return work


def on_computer(task: Task, **block: object) -> Task:
    return replace(task, computer=ComputerTask(ComputerBlock(**block)))


def test_what_is_kept_and_graded_holds_no_secret(store):
    secret = "sk-planted-4711"
    lab = Lab(PLACES, store, ComputerScorer(type="computer", command=("cat", "result.txt")))
    lab.settings = RolloutConfig(grade_every_step=True)
    attempting = replace(lab.attempting(Solving(writing(secret))), redact=Redactor([secret]))
    order = AttemptRequest(on_computer(make_task("t")), "S\n", "rollout")
    assert asyncio.run(attempting(order)).progress
    key = attempting.key(order)
    # a place for guidance is not shown, so its attempts are the same
    assert attempting.key(replace(order, skill=with_region("S\n", SLOW_UPDATE, ""))) == key
    assert HIDDEN.encode() in store.get(key).attempt.artifacts
    assert not any(secret in line for line in store.lines([key]))


@pytest.mark.parametrize("failure", [ModelUnavailable("down"), ComputerFailure("gone")])
def test_what_infrastructure_spoils_is_tried_again_with_growing_pauses(failure):
    lab = Lab()
    found = lab.attempt(Solving(answering(failure, failure)), make_task("a"))
    assert (found.status, found.hard, found.retries) == (Status.SCORED, 1.0, 2)
    assert lab.pauses == [1.0, 2.0]
    assert [one.reason for one in lab.events if isinstance(one, TryFailed)] == [str(failure)] * 2


def test_infrastructure_that_stays_broken_is_never_scored(store):
    lab = Lab(store=store, settings=RolloutConfig(retries=1))
    found = lab.attempt(Solving(answering(*[ModelUnavailable("down")] * 9)), make_task("a"))
    assert (found.status, found.status.measured, found.reason) == (Status.ERROR, False, "down")
    assert found.retries == 1
    assert Lab(store=store).attempt(Solving(answering()), make_task("a")).hard == 1.0  # nor kept
    found = Lab().attempt(Solving(answering(RequestTooLarge("too much"))), make_task("a"))
    assert (found.status, found.reason, found.retries) == (Status.ERROR, "too much", 0)
    model, lab = ScriptedModel(lambda text: ModelUnavailable("still 500")), Lab()
    found = lab.attempt(ChatSolver(model, Prompts.load()), make_task("a"))
    assert (found.status, len(model.requests), lab.pauses) == (Status.ERROR, 1, [])


@pytest.mark.parametrize(
    ("failure", "status"),
    [(ModelRefusal("no \ud83d"), Status.REFUSED), (AgentError("no \ud83d"), Status.AGENT_ERROR)],
)
def test_what_is_the_agents_own_counts_as_nothing_and_is_not_tried_again(failure, status):
    lab, solver = Lab(), Solving(answering(failure))
    found = lab.attempt(solver, make_task("a"))
    assert (found.status, found.status.measured, found.hard) == (status, True, 0.0)
    assert (found.reason, solver.done) == (f"{failure}"[:-1] + "?", ["a"])


GONE = ComputerFailure("gone")


@pytest.mark.parametrize(
    "answer", [None, GONE, Attempt((), "part of it"), GraderError("gone"), Score(0.0, 0.0, "", "")]
)
def test_cancelling_burns_no_retry_and_is_told(answer, store):
    begun, grades = asyncio.Event(), isinstance(answer, GraderError | Score)

    async def interrupted() -> object:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not isinstance(answer, Attempt | Score):
                raise answer or asyncio.CancelledError from GONE
        return answer

    async def waits(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        yield Attempt((), "") if grades else await interrupted()

    class Waits(Moody):
        async def grade(self, task: Task, attempt: Attempt) -> Score:
            return await interrupted()

    lab, solver = Lab(store=store, grader=Waits([])), Solving(waits)
    attempting, request = lab.attempting(solver), AttemptRequest(make_task("a"), "", "s")

    async def work() -> None:
        task = asyncio.create_task(attempting(request))
        await begun.wait()
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(work())
    assert (solver.done, lab.pauses, attempting.kept(request)) == (["a"], [], grades)
    (ended,) = [one for one in lab.events if isinstance(one, AttemptEnded)]
    assert ended.status is Status.CANCELLED


def test_work_on_a_computer_is_graded_on_another_one():
    lab = Lab(places=PLACES, scorer=SOLVED)
    good = lab.attempt(Solving(writing("done\n")), on_computer(make_task("a")))
    bad = lab.attempt(Solving(writing("begun\n")), on_computer(make_task("b")))
    assert (good.status, good.hard, bad.hard) == (Status.SCORED, 1.0, 0.0)


def test_time_is_up_and_the_artifacts_count():
    async def hangs(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        await place.computer.write("result.txt", b"done\n")
        yield ModelSaid(Message("assistant", "nearly"), PAID)
        pass_time(60)
        await asyncio.Event().wait()
        yield Attempt((), "")

    limits = AttemptLimits(rollout_seconds=60)
    lab = Lab(places=PLACES, scorer=SOLVED, settings=RolloutConfig(limits=limits))
    found = lab.attempt(Solving(hangs), on_computer(make_task("a")))
    assert (found.status, found.limit, found.hard) == (Status.LIMIT, types.Limit.TIME, 1.0)
    assert (found.answer, found.usage) == ("nearly", PAID)


def test_files_and_setup_are_there_before_the_work():
    async def looks(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        shown = await place.computer.run(["cat", "a.txt", "b.txt"], timeout=60)
        yield Attempt((), shown.stdout)

    check = {"check": "#!/bin/sh\ngrep -q done result.txt\n"}  # scripts can be run
    script = TaskFile("job", "#!/bin/sh\necho done > result.txt\n")
    common = ComputerTask(ComputerBlock(), (TaskFile("a.txt", "common"), TaskFile("b.txt", "x")))
    block = ComputerBlock(setup=("cp a.txt b.txt", "./job"))
    task = replace(make_task("t"), computer=ComputerTask(block, (TaskFile("a.txt", "own"), script)))
    scorer = ComputerScorer(type="computer", command=("./check",), files=check)
    found = Lab(replace(PLACES, common=common), scorer=scorer).attempt(Solving(looks), task)
    assert (found.hard, found.answer) == (1.0, "ownown")


def test_a_setup_that_fails_is_no_failure_of_the_model():
    solver, lab = Solving(writing("done")), Lab(places=PLACES, scorer=SOLVED)
    found = lab.attempt(solver, on_computer(make_task("a"), setup=("echo no disk >&2; exit 3",)))
    assert (found.status, solver.done, "no disk" in found.reason) == (Status.ERROR, [], True)


def test_a_setup_has_its_own_time():
    task = on_computer(make_task("a"), setup=("sleep 60",), limits={"setup_seconds": 0.2})
    lab = Lab(places=PLACES, scorer=SOLVED, settings=RolloutConfig(retries=0))
    found = lab.attempt(Solving(writing("done")), task)
    assert (found.status, "0.2 s" in found.reason) == (Status.ERROR, True)


def test_a_limit_is_the_tasks_or_else_that_of_all_tasks_or_else_that_of_the_run():
    async def tells(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        limits = place.limits
        assert await place.check_submission() is None  # as the task asks for none
        yield Attempt((), f"{limits.steps} {limits.tokens} {limits.cost_usd}")

    shared = ComputerBlock.model_validate({"limits": {"steps": 4, "tokens": 5}})
    places = replace(PLACES, common=ComputerTask(shared, ()))
    lab = Lab(places=places, settings=RolloutConfig(limits=AttemptLimits(tokens=8, cost_usd=9)))
    for own, wanted in (({"limits": {"steps": 2}}, "2 5 9.0"), ({}, "4 5 9.0")):
        assert lab.attempt(Solving(tells), on_computer(make_task("t"), **own)).answer == wanted


def test_the_solver_hears_why_there_is_no_submission_yet():
    faults = []

    async def asks(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        faults.append(await place.check_submission())
        await place.computer.write("out.txt", b"")
        faults.append(await place.check_submission())
        yield Attempt((), str(place.nudges))

    check = {"command": ["test", "-e", "out.txt"], "message": "Write out.txt."}
    lab = Lab(places=PLACES, settings=RolloutConfig(nudges=3))
    found = lab.attempt(Solving(asks), on_computer(make_task("3"), submission=check))
    assert (faults, found.hard) == (["Write out.txt.", None], 1.0)


def test_without_a_computer_the_configuration_is_at_fault():
    with pytest.raises(UsageError, match="computer"):
        Lab().attempt(Solving(answering(), needs_computer=True), make_task("a"))


def test_more_than_can_be_taken_is_the_agents_own_error(monkeypatch):
    monkeypatch.setattr("skillopt_ci.rollout.attempt.ARTIFACT_BYTES", 3)
    lab = Lab(places=PLACES, scorer=SOLVED)
    found = lab.attempt(Solving(writing("done\n")), on_computer(make_task("a")))
    assert found.status is Status.AGENT_ERROR
    assert "cannot be taken: the task's `artifacts`: more than 3 bytes" in found.reason


def test_an_attempt_that_was_made_is_not_made_again(store):
    task = on_computer(make_task("a"))
    first, second = Solving(writing("done\n")), Solving(writing("nothing"))
    one = Lab(places=PLACES, store=store, scorer=SOLVED).attempt(first, task)
    lab = Lab(places=PLACES, store=store, scorer=SOLVED)
    assert lab.attempt(second, task) == one
    assert second.done == []
    (ended,) = [event for event in lab.events if isinstance(event, WorkEnded)]
    assert ended.stored


def test_work_that_ended_is_kept_though_the_run_is_stopped_while_it_is_packed(store):
    async def works(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        yield Attempt((), task.id, usage=PAID)

    async def make() -> None:
        making = asyncio.current_task()
        await replace(attempting, redact=lambda text: making.cancel() and text)(order)

    attempting = Lab(PLACES, store).attempting(Solving(works))
    order = AttemptRequest(on_computer(make_task("a")), "S", "s")
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(make())
    assert attempting.kept(order)
    assert store.paid("step 1") == PAID


@pytest.mark.parametrize("change", ["task", "attempt", "skill", "solver", "limits"])
def test_another_attempt_is_made(change, store):
    Lab(store=store).attempt(Solving(answering()), make_task("a"))
    facts = {"model": "other"} if change == "solver" else {}
    limits = AttemptLimits(steps=7) if change == "limits" else AttemptLimits()
    solver = Solving(answering(), facts=facts)
    Lab(store=store, settings=RolloutConfig(limits=limits)).attempt(
        solver,
        make_task("b" if change == "task" else "a"),
        number=int(change == "attempt"),
        skill="other" if change == "skill" else "S",
    )
    assert len(solver.done) == 1


@pytest.mark.parametrize("failure", [ModelRefusal("filter"), AgentError("crash")])
def test_an_ending_that_was_paid_for_is_kept_too(failure, store):
    first = Lab(store=store).attempt(Solving(answering(failure)), make_task("a"))
    again = Solving(answering())
    assert Lab(store=store).attempt(again, make_task("a")) == first
    assert again.done == []


def test_what_its_own_tool_could_not_grade_is_unscored_and_made_again(store):
    async def hangs(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        yield ModelSaid(Message("assistant", "answered"), PAID)
        pass_time(60)
        try:
            await asyncio.Event().wait()
        finally:
            place.hindered.append("the scorer hangs")

    settings, solver = RolloutConfig(limits=AttemptLimits(rollout_seconds=60)), Solving(hangs)
    found = Lab(store=store, settings=settings).attempt(solver, make_task("a"))
    assert (found.status, found.reason) == (Status.GRADER_ERROR, "the scorer hangs")
    assert len(solver.done) == 1
    assert Lab(store=store).attempt(Solving(answering()), make_task("a")).hard == 1.0


def test_what_an_agent_spent_by_itself_is_charged_once_and_again_when_resumed(store):
    first, resumed, later = (Lab(store=store, scope=scope) for scope in ("s1", "s1", "s2"))
    for lab in (first, resumed, later):
        attempting = lab.attempting(Solving(answering()))
        for _ in range(2):
            asyncio.run(attempting(AttemptRequest(make_task("a"), "S", "rollout")))
    assert by_stage(first.meter.accounts()) == {"rollout": PAID}
    assert by_stage(resumed.meter.accounts()) == {"rollout": PAID}
    assert later.meter.total() == Usage()


def test_calls_of_a_metered_client_are_not_charged_twice(store):
    lab, resumed = Lab(store=store), Lab(store=store)

    async def calls(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        lab.meter.charge(Account(Role.TARGET, place.stage), PAID)
        yield Attempt((), task.id, usage=PAID)

    lab.attempt(Solving(calls), make_task("a"))
    resumed.attempt(Solving(calls), make_task("a"))
    assert lab.meter.total() == resumed.meter.total() == PAID


@pytest.mark.parametrize(
    "told", [ModelSaid(Message("assistant", "hm"), PAID), Attempt((), "", usage=PAID)]
)
def test_what_was_spent_before_a_failure_is_charged_and_kept(store, told):
    async def fails(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        yield told
        raise ModelUnavailable("overloaded")

    lab, used = Lab(store=store, settings=RolloutConfig(retries=1)), list[str]()
    attempting = lab.attempting(Solving(fails))
    assert attempting.cache is not None
    attempting = replace(attempting, cache=replace(attempting.cache, used=used.append))
    asyncio.run(attempting(AttemptRequest(make_task("a"), "S", "rollout")))
    assert lab.meter.total() == store.paid("step 1") == PAID + PAID
    assert list(store.lines(used)) == []  # shards can still hand over all that they made


def test_a_judge_s_calls_at_every_step_are_not_taken_for_the_agent_s():
    class Judged(Moody):
        async def grade(self, task: Task, attempt: Attempt) -> Score:
            lab.meter.charge(JUDGE, Usage(calls=1))
            return await super().grade(task, attempt)

    lab = Lab(PLACES, grader=Judged([]), settings=RolloutConfig(grade_every_step=True))
    lab.attempt(Solving(writing("done")), on_computer(make_task("a")))
    assert lab.meter.accounts() == {JUDGE: Usage(calls=2), Account(Role.TARGET, "rollout"): PAID}


def test_a_used_up_budget_is_asked_before_an_agent_begins():
    solver = Solving(answering())
    with pytest.raises(BudgetExhausted):
        Lab(meter=Meter(step=Limits(calls=0))).attempt(solver, make_task("a"))
    assert solver.done == []


@dataclass
class Moody:
    """A grader that fails with each of ``errors`` in turn, then grades."""

    errors: list[Exception]
    keep: bool = False
    asked: int = 0

    async def grade(self, task: Task, attempt: Attempt) -> Score:
        self.asked += 1
        async with siblings() as group:  # its failure marks this task as cancelled before 3.13
            group.create_task(self._check())
        return Score(1.0, 1.0, "right", attempt.response)

    async def _check(self) -> None:
        if self.errors:
            raise self.errors.pop(0)

    def facts(self, task: Task) -> dict[str, object] | None:
        return {"scorer": "moody"} if self.keep else None

    def keeps_computer(self, task: Task) -> bool:
        return False


def test_a_grader_error_is_graded_again_without_the_work(store):
    lab = Lab(store=store, grader=Moody([GraderError("no report")]))
    solver = Solving(answering())
    first, second = (lab.attempt(solver, make_task("a")) for _ in range(2))
    assert (first.status, second.status) == (Status.GRADER_ERROR, Status.SCORED)
    assert (first.answer, solver.done) == ("a", ["a"])


def test_a_grader_that_infrastructure_spoils_is_tried_again():
    spoilt = GraderError("its computer is gone")
    spoilt.__cause__ = GONE
    lab, solver = Lab(grader=Moody([spoilt, spoilt])), Solving(answering())
    found = lab.attempt(solver, make_task("a"))
    assert (found.hard, solver.done, lab.pauses) == (1.0, ["a"], [1.0, 2.0])


def test_work_is_made_again_if_its_own_computer_has_to_grade_it(store):
    # a stored attempt has its workspace, and not the rest of the computer
    async def works_at_home(task: Task, place: Workplace) -> AsyncIterator[Step | Attempt]:
        await place.computer.write("/home/agent/result.txt", b"done\n")
        yield Attempt((), "see there", usage=PAID)

    solver, task = Solving(works_at_home), on_computer(make_task("a"))
    marks = []
    for mark, made in (("done", 1), ("done", 1), ("done$", 2), ("done$", 2)):
        command = ("sh", "-c", f"grep {mark} ~/result.txt")
        own = ComputerScorer(type="computer", command=command, same_computer=True)
        marks.append(Lab(PLACES, store, own).attempt(solver, task).hard)
        assert len(solver.done) == made
    assert marks == [1.0] * 4
    assert store.paid("step 1") == PAID + PAID


def test_a_grade_is_kept_where_it_is_known_what_it_depends_on(store):
    known, unknown = Moody([], keep=True), Moody([])
    for grader in (known, known, unknown, unknown):
        Lab(store=store, grader=grader).attempt(Solving(answering()), make_task("a"))
    assert (known.asked, unknown.asked) == (1, 2)
