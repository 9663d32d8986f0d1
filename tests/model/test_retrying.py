import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import virtual_time
from hypothesis import given
from hypothesis import strategies as st

from skillopt_ci.aio import TimeUp, siblings, working_time
from skillopt_ci.errors import InfrastructureError
from skillopt_ci.model import retry
from skillopt_ci.model.retry import (
    RetryingClient,
    Throttle,
    TransientFailure,
    retry_after_seconds,
    wait_in_words,
)
from skillopt_ci.model.types import ChatReply, ChatRequest, ModelRefusal, ModelUnavailable
from skillopt_ci.progress import Event


class Naps:
    """Remembers how long it was asked to sleep and only yields to others."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def client(inner: Any, naps: Naps, retries: int = 3, at_once: int = 4) -> RetryingClient:
    return RetryingClient(inner, retries, Throttle(at_once), sleep=naps, draw=lambda: 0.5)


def test_a_failure_that_passes_is_tried_again_when_the_server_wishes(scripted, ask, reply):
    naps = Naps()
    inner = scripted(TransientFailure("503"), TransientFailure("503"), reply("at last"))
    assert asyncio.run(client(inner, naps).complete(ask())).text == "at last"
    assert naps.seconds == [0.75, 1.5]
    naps, inner = Naps(), scripted(TransientFailure("429", retry_after=30), reply())
    asyncio.run(client(inner, naps).complete(ask()))
    assert naps.seconds == [30.5]
    said, told = ("status 429", "status 503", "status 429: in 2 s", "status 429: in 31 s"), []
    inner = scripted(*(TransientFailure(f"{one}.") for one in said), reply())
    asyncio.run(replace(client(inner, naps, retries=9), observe=told.append).complete(ask()))
    notes = [f"The target model does not answer: {one}. Trying again." for one in said[:3]]
    assert [one.text for one in told] == notes


def test_tries_run_out_with_the_last_failure_named(scripted, ask):
    naps, inner = Naps(), scripted(TransientFailure("status 500: boom"))
    with pytest.raises(ModelUnavailable, match=r"target .* after 4 tries: status 500: boom"):
        asyncio.run(client(inner, naps).complete(ask()))
    assert (len(inner.asked), len(naps.seconds)) == (4, 3)
    with pytest.raises(ModelUnavailable, match="after 1 try: status 500"):
        asyncio.run(client(inner, naps, retries=0).complete(ask()))


def test_a_server_that_was_never_reached_is_given_up_within_seconds(scripted, ask):
    inner = scripted(*(TransientFailure(f"{n} refused", unreachable=True) for n in range(9)))

    async def work() -> float:
        began, told = asyncio.get_running_loop().time(), list[Event]()
        never = RetryingClient(inner, 20, Throttle(4), "model.judge", told.append, draw=lambda: 1.0)
        with pytest.raises(InfrastructureError, match=r"cannot be reached: \d refused") as caught:
            await never.complete(ask())
        assert not isinstance(caught.value, ModelUnavailable)  # which costs one attempt only
        assert all(one in caught.value.hint for one in ("model.judge.base_url", "SSL_CERT_FILE"))
        assert ["refused. Trying again." in note.text for note in told] == [True]
        return asyncio.get_running_loop().time() - began

    assert virtual_time.run(work()) < 5


def test_a_server_that_was_reached_gets_all_tries(scripted, ask, reply):
    gone = [TransientFailure("refused", unreachable=True)] * 9
    late = RetryingClient(scripted(reply(), *gone, reply("back")), 9, Throttle(4), draw=lambda: 1.0)

    async def work() -> str:
        await late.complete(ask())
        return (await late.complete(ask())).text

    assert virtual_time.run(work()) == "back"


def test_an_empty_answer_counts_at_last_and_what_unusable_ones_cost_is_paid(scripted, ask, reply):
    unusable = TransientFailure("no answer", reply=reply(""), usage=reply("").usage)
    outcomes = (unusable, TransientFailure("503"), reply("ok"))
    for inner, text, calls in ((scripted(*outcomes), "ok", 2), (scripted(unusable), "", 4)):
        answer = asyncio.run(client(inner, Naps()).complete(ask()))
        assert (answer.text, answer.usage.calls, answer.usage.tokens) == (text, calls, 10 * calls)
        assert answer.usage.cost_usd == pytest.approx(0.01 * calls)


@pytest.mark.parametrize("failure", [ModelRefusal("no"), asyncio.CancelledError(), KeyError("x")])
def test_other_failures_pass_at_once(scripted, ask, failure):
    inner = scripted(failure)

    async def run() -> None:
        with pytest.raises(type(failure)):
            await client(inner, Naps()).complete(ask())

    asyncio.run(run())
    assert len(inner.asked) == 1


def test_a_call_that_backs_off_leaves_its_slot_to_others(scripted, ask, reply):
    async def run() -> list[str]:
        woken = asyncio.Event()
        inner = scripted(TransientFailure("busy"), reply("second"), reply("first"))

        async def sleep(seconds: float) -> None:
            await woken.wait()

        bounded = RetryingClient(inner, retries=1, throttle=Throttle(1), sleep=sleep)
        first = asyncio.create_task(bounded.complete(ask("first")))
        second = (await asyncio.create_task(bounded.complete(ask("second")))).text
        woken.set()
        return [second, (await first).text]

    assert asyncio.run(run()) == ["second", "first"]


@given(st.integers(1, 10_000), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_half_a_pause_is_drawn_and_it_doubles_up_to_a_minute_and_a_wish_is_kept(n, wish, draw):
    assert 0.5 <= retry.backoff(n, None, lambda: draw) / min(60.0, 2.0 ** min(n - 1, 10)) <= 1
    assert min(wish, 120) <= retry.backoff(1, wish, lambda: draw) <= 121


def test_waiting_and_failed_tries_take_no_working_time(reply, ask):
    class Slow:
        tries = 0

        async def complete(self, request: ChatRequest) -> ChatReply:
            self.tries += 1
            await asyncio.sleep(100)
            if self.tries < 3:
                raise TransientFailure("timeout")
            return reply("at last")

    slow = RetryingClient(Slow(), retries=5, throttle=Throttle(1), draw=lambda: 1.0)

    async def work(times: int) -> str:
        async with working_time(150):
            return [(await slow.complete(ask())).text for _ in range(times)][-1]

    assert virtual_time.run(work(1)) == "at last"
    with pytest.raises(TimeUp):
        virtual_time.run(work(2))


# How long a server asks to be left alone.

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 01 Jan 99999999999999999999 00:00:00 GMT"}, None),
        *(({"retry-after": text}, None) for text in ("-3", "inf")),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:05 -0000"}, 5),  # without a zone
    ],
)
def test_seconds_are_read(headers, seconds):
    assert retry_after_seconds(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ('{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}', 34),
        ("You exceeded your current quota. Please retry in 34.07s.", 34.07),
        ("Rate limit reached for gpt-x. Limit 3 / min. Please try again in 86ms.", 0.086),
        ("Limit 100000, Used 99999. Please try again in 1m26.4s. Need more tokens?", 86.4),
        ("exceeded token rate limit. Please retry after 26 seconds.", 26),
        ("request reached max request: 3, please try again after 1 seconds", 1),  # Moonshot
        ("Resource exhausted. Please try again later.", None),
        (f"Please try again in {'9' * 5_000}m1s.", None),
    ],
)
def test_a_wait_that_only_the_error_s_text_tells_is_read(error, seconds):
    assert wait_in_words(error) == seconds


@given(st.integers(-(10**6), 10**6))
def test_a_date_is_a_distance_from_now_and_never_in_the_past(distance):
    date = format_datetime(NOW + timedelta(seconds=distance), usegmt=True)
    assert retry_after_seconds({"retry-after": date}, NOW) == max(0, distance)


# How many calls are under way, in a world whose clock runs only while everybody waits.


def simulated(work: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, float]:
    """What ``work`` returns, and the seconds that it took by the simulated clock."""

    async def timed() -> tuple[Any, float]:
        return await work(), asyncio.get_running_loop().time()

    return virtual_time.run(timed())


@dataclass
class Limited:
    """Answers in a second; refuses what would be more than ``capacity`` calls at once."""

    capacity: int
    answer: Any
    retry_after: float | None = None
    now: int = 0
    refused: int = 0
    answered: int = 0
    starts: list[float] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> Any:
        self.starts.append(asyncio.get_running_loop().time())
        self.now += 1
        try:
            if self.now > self.capacity:
                self.refused += 1
                raise TransientFailure("429", retry_after=self.retry_after, overloaded=True)
            await asyncio.sleep(1)
            self.answered += 1
            return self.answer
        finally:
            self.now -= 1


class Fixed(Throttle):
    def overloaded(self, since: int, retry_after: float | None) -> None:
        pass


def worked_off(server: Limited, throttle: Throttle, count: int, ask: Any) -> float:
    async def work() -> None:
        client = RetryingClient(server, retries=100, throttle=throttle, draw=lambda: 0.5)
        async with siblings() as group:
            for number in range(count):
                group.create_task(client.complete(ask(str(number))))

    return simulated(work)[1]


def test_less_is_refused_and_more_is_done_than_with_a_fixed_number(ask, reply):
    learning, fixed = (Limited(4, reply()) for _ in range(2))
    fast = worked_off(learning, Throttle(32), 200, ask)
    slow = worked_off(fixed, Fixed(32), 200, ask)
    assert (learning.answered, fixed.answered) == (200, 200)
    assert learning.refused < fixed.refused / 3
    assert fast < slow


def test_calls_refused_together_halve_the_number_once_and_it_grows_back():
    throttle = Throttle(16)
    for _ in range(16):
        throttle.overloaded(0, None)
    assert throttle.limit == 8
    for _ in range(8 * 9):
        throttle.answered()
    assert throttle.limit > 12
    for _ in range(1000):
        throttle.answered()
    assert throttle.limit == 16
    for epoch, limit in enumerate((8, 4, 2, 1, 1), start=1):
        throttle.overloaded(epoch, None)
        assert throttle.limit == limit


def test_nobody_begins_before_the_time_that_the_server_asks_for(ask, reply):
    server = Limited(2, reply(), retry_after=30.0)
    worked_off(server, Throttle(3), 9, ask)
    first, later = server.starts[:3], server.starts[3:]
    assert first == [0.0] * 3
    assert min(later) >= 30
    assert server.answered == 9


def test_a_wait_that_is_cancelled_takes_no_place_away():
    async def work() -> list[str]:
        throttle, done = Throttle(1), list[str]()

        async def visit(name: str) -> None:
            async with throttle.slot():
                await asyncio.sleep(1)
                done.append(name)

        first, second, third = (asyncio.create_task(visit(name)) for name in "abc")
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.wait([first, second, third])
        return done

    assert simulated(work)[0] == ["a", "c"]


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from(["ok", "busy", "cancel"]), st.integers(0, 3)), max_size=25),
)
def test_never_more_than_the_ceiling_and_nobody_is_forgotten(ceiling, visits):
    async def work() -> tuple[int, int]:
        throttle, now, most, ended = Throttle(ceiling), 0, 0, 0

        async def visit(kind: str, seconds: int) -> None:
            nonlocal now, most, ended
            try:
                async with throttle.slot() as since:
                    now += 1
                    most = max(most, now)
                    try:
                        await asyncio.sleep(seconds)
                    finally:
                        now -= 1
                    if kind == "busy":
                        throttle.overloaded(since, seconds)
                    else:
                        throttle.answered()
            finally:
                ended += 1

        tasks = [asyncio.create_task(visit(*one)) for one in visits]
        for (kind, seconds), task in zip(visits, tasks, strict=True):
            if kind == "cancel":
                await asyncio.sleep(seconds / 2)
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return most, ended

    (most, ended), _ = simulated(work)
    assert most <= ceiling
    assert ended == len([*visits])
