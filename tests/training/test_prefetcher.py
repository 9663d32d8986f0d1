"""Prefetching, attempt by attempt: the order of events is in the test's hands."""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest
from virtual_time import rounds

from skillopt_ci.aio import Slots
from skillopt_ci.cli.train import train_to_end
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.progress import silent
from skillopt_ci.rollout.events import read_events
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.tasks.task import Task
from skillopt_ci.training.plan import plan_step
from skillopt_ci.training.prefetcher import Prefetcher, look_ahead, may_prefetch
from tests.conftest import EPOCH_ENDS, Checkout


def order(name: str, skill: str = "Do.\n", attempt: int = 0) -> AttemptRequest:
    return AttemptRequest(Task(name, ()), skill, "rollout", attempt)


@dataclass
class Hands:
    """Makes attempts, each as long as it is told to take."""

    asked: list[str] = field(default_factory=list)
    ends: defaultdict[str, asyncio.Event] = field(
        default_factory=lambda: defaultdict(asyncio.Event)
    )
    failure: Exception | None = None

    async def __call__(self, one: AttemptRequest) -> None:
        self.asked.append(one.task.id)
        await self.ends[one.task.id].wait()
        if self.failure is not None:
            raise self.failure

    async def finish(self, *names: str) -> None:
        for name in names:
            self.ends[name].set()
        await rounds()


def played(scenario: Callable[[Prefetcher, Hands, Slots], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of ``scenario``, which has two places for attempts."""

    async def play() -> None:
        hands, slots = Hands(), Slots(2)
        prefetcher = Prefetcher(hands, slots)
        await scenario(prefetcher, hands, slots)
        await prefetcher.close(patient=False)

    return lambda: asyncio.run(play())


@played
async def test_expect_begins_sure_attempts_in_free_slots_once(prefetcher, hands, slots):
    prefetcher.expect([order("a"), order("b"), order("c")])
    await rounds()
    assert hands.asked == ["a", "b"]
    await hands.finish("a", "b", "c")
    prefetcher.expect([order("a"), order("b"), order("c")])
    await rounds()
    assert hands.asked == ["a", "b", "c"]


@played
async def test_begun_waits_for_what_is_under_way_and_leaves_others(prefetcher, hands, slots):
    hands.failure = ModelSetupError("the model is loading")
    prefetcher.expect([order("a"), order("b"), order("c")])
    await rounds()
    await prefetcher.join(order("c"))
    needs = asyncio.create_task(prefetcher.join(order("a")))
    await rounds()
    assert not needs.done()
    await hands.finish("a", "b", "c")
    assert (needs.result(), hands.asked) == (None, ["a", "b"])


@played
async def test_begun_ignores_another_attempt_skill_or_task(prefetcher, hands, slots):
    prefetcher.expect([order("a")])
    await rounds()
    for other in (order("a", attempt=1), order("a", skill="Do not.\n"), order("b")):
        await asyncio.wait_for(prefetcher.join(other), 60)
    assert hands.asked == ["a"]


@played
async def test_expect_forgets_waiting_attempts_and_finishes_begun_ones(prefetcher, hands, slots):
    prefetcher.expect([order("a"), order("b"), order("c")])
    await rounds()
    prefetcher.expect([order("d")])
    await hands.finish("a", "b", "c")
    assert hands.asked == ["a", "b", "d"]


@played
async def test_later_attempts_let_the_work_at_hand_pass(prefetcher, hands, slots):
    prefetcher.expect([order("a")], later=[order("x"), order("y"), order("z")])
    await rounds()
    at_hand = asyncio.create_task(slots.acquire())
    await hands.finish("a", "x")
    assert (hands.asked, at_hand.done()) == (["a", "x", "y"], True)
    await hands.finish("y")
    assert hands.asked == ["a", "x", "y", "z"]


@played
async def test_close_cancels_without_patience(prefetcher, hands, slots):
    prefetcher.expect([order("a")])
    await rounds()
    await asyncio.wait_for(prefetcher.close(patient=False), 60)
    async with asyncio.timeout(60), slots, slots:
        assert hands.asked == ["a"]


@played
async def test_close_with_patience_finishes_what_is_under_way(prefetcher, hands, slots):
    prefetcher.expect([order("a"), order("b"), order("c")])
    await rounds()
    closing = asyncio.create_task(prefetcher.close(patient=True))
    await rounds()
    assert not closing.done()
    await hands.finish("a", "b", "c")
    assert closing.done()
    assert hands.asked == ["a", "b"]


# Runs that prefetch: the same record sooner, with models behind a server and commits in git.

NONE, SURE = "schedule.ahead=none", "schedule.ahead=sure"
#: So many places that each stage leaves some empty.
WIDE = "model.target.max_concurrency=32"
SETTINGS: list[tuple[str, ...]] = [(), (WIDE,), EPOCH_ENDS, ("rollout.attempts=2", *EPOCH_ENDS)]
SETTINGS += [(WIDE, "evaluation.confirm=0.5", *EPOCH_ENDS)]
# where each call is weighed, or no answer is kept, nothing is made ahead
HOLDS = ("budget.run.calls=500", "budget.step.tokens=900000", "cache.enabled=false")
SETTINGS += [(WIDE, "train.num_epochs=1", one) for one in HOLDS]


def train(checkout: Checkout, *overrides: str) -> None:
    session = checkout.session(*overrides)
    with session.ledger.lock():
        asyncio.run(train_to_end(session, silent))


def attempted(prompts: Sequence[str]) -> list[str]:
    """The requests to the target, sorted: the skill and the task."""
    return sorted(prompt for prompt in prompts if "Stage:" not in prompt)


@pytest.mark.parametrize("overrides", SETTINGS)
def test_what_is_sure_changes_neither_record_nor_calls(workshop, overrides):
    plain, ahead, server = workshop.checkout("plain"), workshop.checkout("ahead"), workshop.server
    train(plain, NONE, *overrides)
    asked = sorted(server.prompts)
    server.prompts.clear()
    train(ahead, SURE, *overrides)
    assert ahead.trees() == plain.trees()
    assert sorted(server.prompts) == asked
    assert recorded(ahead) == recorded(plain)


def test_the_next_batch_is_attempted_while_a_verdict_is_saved(checkout, model_server, monkeypatch):
    """The first verdict is held back until an attempt of the second step has come."""
    advance, verdicts, came = Ledger.advance, list[bool](), threading.Event()
    session = checkout.session()
    plan = plan_step(session.splits.train, session.config.train, 2)
    items = {task.messages[-1].content for task in plan.batches[0].tasks}

    def trouble(prompt: str) -> None:
        if prompt.rsplit("\n\n", maxsplit=1)[-1] in items:
            came.set()

    def held(ledger: Ledger, expected: str | None, new: str, drop_candidate=None) -> None:
        if expected is not None and not verdicts:
            verdicts.append(came.wait(60))
        advance(ledger, expected, new, drop_candidate)

    monkeypatch.setattr(Ledger, "advance", held)
    model_server.trouble = trouble
    checkout.run(SURE)
    assert verdicts == [True]


def test_the_initial_skill_is_tested_in_slots_that_stay_free(checkout, model_server):
    train(checkout, SURE)
    items = [prompt.rpartition("\n")[2] for prompt in model_server.prompts]
    tested = min(items.index(task.messages[-1].content) for task in checkout.session().test)
    assert any("Stage:" in prompt for prompt in model_server.prompts[tested:])
    checkout.session().cache_path.unlink()
    train(checkout, SURE, WIDE, "train.num_epochs=3")  # has their score already
    assert model_server.answered[model_server.prompts[tested]] == 1


def test_nothing_is_begun_ahead_of_a_step_that_is_done_alone(workshop):
    checkout, server = workshop.checkout(), workshop.server
    checkout.step(SURE, WIDE)
    outlook = look_ahead(checkout.session())
    assert outlook.phase == "rollout"
    nexts = {f"{order.task.messages[-1].content}" for order in outlook.attempts}
    asked = {prompt.rsplit("\n\n", maxsplit=1)[-1] for prompt in attempted(server.prompts)}
    assert not nexts & asked


def test_the_attempts_after_the_first_epoch_are_foreseen(workshop):
    """Its end makes another text of the skill, under which nothing was attempted yet."""
    checkout, server = workshop.checkout(), workshop.server
    for _ in range(2):
        checkout.step(*EPOCH_ENDS)
    outlook = look_ahead(checkout.session(*EPOCH_ENDS))
    checkout.step(*EPOCH_ENDS)
    made = {(one.id, one.attempt) for one in checkout.record(3).proposal.rollout.tasks}
    assert {(order.task.id, order.attempt) for order in outlook.attempts} == made
    assert server.most_answers == 1


def test_nothing_is_made_ahead_by_people_or_where_workers_share_it_out(checkout):
    assert may_prefetch(checkout.session(SURE).config)
    for holds in ("rollout.solver.type=human", "rollout.executor.type=ray", NONE):
        assert not may_prefetch(checkout.session(SURE, holds).config)


def recorded(checkout: Checkout) -> Counter[tuple[str, int]]:
    """How often the record has an attempt at each task, by its number."""
    events = read_events(checkout.session().events)
    ended = [one for one in events if one["type"] == "attempt_ended"]
    assert ended
    return Counter((one["task"], one["attempt"]) for one in ended)
