import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.budget import BudgetedClient, Meter
from skillopt_ci.model.cache import UNCLAIMED, CachedClient, CallCache
from skillopt_ci.model.retry import RetryingClient, Throttle, TransientFailure
from skillopt_ci.model.types import (
    ChatRequest,
    ModelRefusal,
    ModelUnavailable,
    Role,
    Usage,
    by_stage,
)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[CallCache]:
    with closing(CallCache(tmp_path / "calls.sqlite")) as opened:
        yield opened


def prompt(request: ChatRequest) -> str:
    return request.messages[-1].content


class Process:
    """A client as one process has it: its own meter, the cache in common."""

    def __init__(self, inner: Any, cache: CallCache, scope: str = "step 1") -> None:
        self.meter, self.answered = Meter(), 0
        paying = BudgetedClient({Role.TARGET: inner}, self.meter)
        self.client = CachedClient(paying, cache, key_of=prompt, scope=scope, meter=self.meter)

    def ask(self, *requests: ChatRequest) -> list[str]:
        async def run() -> list[str]:
            replies = await asyncio.gather(*map(self.client.complete, requests))
            self.answered += len(replies)
            return [reply.text for reply in replies]

        return asyncio.run(run())

    @property
    def accounts(self) -> tuple[int, int]:
        paid = self.meter.total().calls
        return paid, self.answered - paid


def test_what_was_answered_is_not_asked_again(cache, scripted, ask, reply):
    inner = scripted(reply("first"), reply("second"))
    process = Process(inner, cache)
    assert process.ask(ask("a")) + process.ask(ask("a")) == ["first", "first"]
    assert (len(inner.asked), process.accounts) == (1, (1, 1))


def test_a_resumed_step_reports_the_usage_of_an_uninterrupted_one(cache, scripted, ask, reply):
    inner = scripted(reply())
    Process(inner, cache).ask(ask("a"), ask("b"))
    resumed = Process(inner, cache)
    resumed.ask(ask("a"), ask("b"), ask("c"), ask("a"))
    assert (len(inner.asked), resumed.accounts) == (3, (3, 1))
    assert by_stage(resumed.meter.accounts())["rollout"].cost_usd == pytest.approx(0.03)


def test_another_step_reuses_at_no_cost(cache, scripted, ask, reply):
    inner = scripted(reply())
    Process(inner, cache, scope="step 1").ask(ask("a"))
    later = Process(inner, cache, scope="step 2")
    later.ask(ask("a"))
    assert (later.accounts, later.meter.total()) == ((0, 1), Usage())


@pytest.mark.parametrize(
    ("end", "calls"),
    [
        (ModelSetupError("key refused"), 1),
        (asyncio.CancelledError(), 1),
        (TransientFailure("503"), 1),
        (ModelRefusal("no", usage=Usage(1, 5)), 2),
    ],
)
def test_a_try_that_was_billed_before_a_failure_stays_paid(cache, scripted, ask, reply, end, calls):
    inner = scripted(TransientFailure("no answer", usage=reply("").usage), end)
    client = RetryingClient(inner, 1, Throttle(1), sleep=lambda _: asyncio.sleep(0))
    process = Process(client, cache)
    with suppress(ModelSetupError, asyncio.CancelledError, ModelUnavailable, ModelRefusal):
        process.ask(ask("a"))
    paid = cache.paid("step 1")
    assert paid == process.meter.total()
    assert (paid.calls, paid.tokens) == (calls, 10 + 5 * (calls - 1))


@pytest.mark.parametrize(("usage", "asked"), [(Usage(1), 2), (Usage(1, 5), 1)])
def test_a_refusal_is_remembered_if_it_cost_tokens(cache, scripted, ask, usage, asked):
    inner = scripted(ModelRefusal("too long", usage=usage))
    for _ in range(2):
        with pytest.raises(ModelRefusal, match="too long"):
            Process(inner, cache).ask(ask("a"))
    assert len(inner.asked) == asked


def test_a_failure_is_not(cache, scripted, ask, reply):
    process = Process(scripted(ModelUnavailable("down"), reply("up")), cache)
    with pytest.raises(ModelUnavailable):
        process.ask(ask("a"))
    assert process.ask(ask("a")) == ["up"]
    assert process.accounts == (1, 0)


class Held:
    """Answers when told to; counts."""

    def __init__(self, answer: Any) -> None:
        self.calls = 0
        self.answer = answer
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    async def complete(self, request: ChatRequest) -> Any:
        self.calls += 1
        self.asked.set()
        await self.released.wait()
        return self.answer


def test_identical_requests_at_once_share_a_call(cache, ask, reply):
    async def run() -> tuple[int, set[str]]:
        held = Held(reply("shared"))
        client = Process(held, cache).client
        waiting = [asyncio.create_task(client.complete(ask("a"))) for _ in range(10)]
        await held.asked.wait()
        held.released.set()
        return held.calls, {answer.text for answer in await asyncio.gather(*waiting)}

    assert asyncio.run(run()) == (1, {"shared"})


def test_when_the_caller_is_cancelled_another_takes_over(cache, ask, reply):
    async def run() -> tuple[str, bool]:
        held = Held(reply("answer"))
        client = Process(held, cache).client
        first, second = (asyncio.create_task(client.complete(ask("a"))) for _ in range(2))
        await held.asked.wait()
        first.cancel()
        held.released.set()
        return (await second).text, first.cancelled()

    assert asyncio.run(run()) == ("answer", True)


def test_an_unclaimed_answer_is_paid_for_by_who_uses_it_first(cache, scripted, ask, reply):
    inner = scripted(reply())
    Process(inner, cache, scope=UNCLAIMED).ask(ask("a"))
    first, resumed = (Process(inner, cache, scope="step 1") for _ in range(2))
    later = Process(inner, cache, scope="step 2")
    for process in (first, later, resumed):
        process.ask(ask("a"))
    assert (first.accounts, resumed.accounts, later.accounts) == ((1, 0), (1, 0), (0, 1))


def test_every_key_that_was_answered_is_told(cache, scripted, ask, reply):
    keys: list[str] = []
    client = CachedClient(
        scripted(reply(), ModelRefusal("no"), ModelUnavailable("gone")),
        cache,
        key_of=prompt,
        scope="s",
        meter=Meter(),
        used=keys.append,
    )
    for word in ("answered", "refused", "failed", "answered"):
        with suppress(ModelRefusal, ModelUnavailable):
            asyncio.run(client.complete(ask(word)))
    assert keys == ["answered", "refused", "answered"]
