"""Trying a call again while its failures may pass, and how many tries a role has under way."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from skillopt_ci.aio import off_the_clock, refund
from skillopt_ci.errors import InfrastructureError
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, ModelUnavailable

# How many calls a role has under way: as many as its server bears.

_FALL = 0.5


class Throttle:
    """Lets at most ``ceiling`` calls be under way, fewer while the server has too much to do.

    Whoever waits is woken by the end of a call or of a pause, in the order of arrival. It belongs
    to one event loop.
    """

    def __init__(self, ceiling: int) -> None:
        self._ceiling = float(ceiling)
        self._window = float(ceiling)
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._resume_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._epoch = 0

    @property
    def limit(self) -> int:
        """Calls that may be under way now."""
        return int(self._window)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a place and keep it; its value is to be handed to :meth:`overloaded`."""
        await self._enter()
        try:
            yield self._epoch
        finally:
            self._under_way -= 1
            self._wake()

    def answered(self) -> None:
        """Tell of a call that was answered: the limit rises by one with each window of them."""
        self._window = min(self._ceiling, self._window + 1 / self._window)

    def overloaded(self, since: int, retry_after: float | None) -> None:
        """Tell of a refusal for overload of the call that began with ``since``.

        The limit is halved once for all calls that were under way together. Nobody begins within
        the next ``retry_after`` seconds, where the server asks for that.
        """
        if since == self._epoch:
            self._window = max(1.0, self._window * _FALL)
            self._epoch += 1
        if retry_after is not None:
            now = asyncio.get_running_loop().time()
            self._resume_at = max(self._resume_at, now + retry_after)

    async def _enter(self) -> None:
        if not self._waiting and self._is_free():
            self._under_way += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._wake()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._under_way -= 1
                self._wake()
            elif place in self._waiting:
                self._waiting.remove(place)
            raise

    def _is_free(self) -> bool:
        paused = asyncio.get_running_loop().time() < self._resume_at
        return not paused and self._under_way < self.limit

    def _wake(self) -> None:
        """Let in as many as there is room for, or see to it that somebody does after the pause."""
        while self._waiting and self._is_free():
            place = self._waiting.popleft()
            if not place.done():
                self._under_way += 1
                place.set_result(None)
        if self._waiting and self._under_way < self.limit and self._alarm is None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(self._resume_at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake()


# Failures of one try of a call that may pass, and how long a server asks to be left alone.


class TransientFailure(InfrastructureError):
    """One try failed for a reason that may pass; ``retry_after`` is in seconds, if asked for.

    ``overloaded`` says that the server had too much to do, by us or by all.
    """

    def __init__(
        self, message: str, *, retry_after: float | None = None, overloaded: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.overloaded = overloaded


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that a response's headers (names in lower case) ask to wait, None without a wish.

    ``now`` must be aware: it turns an HTTP date into a distance, never below 0.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    return _until(value, now) if value and seconds is None else seconds


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(http_date: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(http_date)
    except ValueError:
        return None
    # A date in "-0000" (or without a zone) comes back naive; HTTP dates are UTC by definition.
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())


FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0
LONGEST_RETRY_AFTER = 120.0


def backoff(try_number: int, retry_after: float | None, draw: Callable[[], float]) -> float:
    """Seconds to wait after failed try ``try_number`` (from 1): exponential with full jitter.

    A server's wish is a floor to which the jitter is added, so that calls which were turned away
    together do not come back together. ``draw`` gives numbers from [0, 1).
    """
    window = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(try_number - 1, 16))
    if retry_after is None:
        return draw() * window
    return min(LONGEST_RETRY_AFTER, retry_after) + draw() * FIRST_BACKOFF


def _bearable(retry_after: float | None) -> float | None:
    return None if retry_after is None else min(LONGEST_RETRY_AFTER, retry_after)


class RetryingClient:
    """Repeats calls that end in :class:`TransientFailure`, at most ``retries`` times each.

    At most ``max_concurrency`` tries are under way at once, fewer after refusals for overload; a
    call that waits to be tried again does not count. What a server asks to wait holds for all.
    Any other exception, cancellation included, passes at once. Whoever works against the clock
    loses no time by queueing, by pauses and by tries that failed.
    """

    def __init__(
        self,
        inner: ChatClient,
        *,
        retries: int,
        max_concurrency: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._inner = inner
        self._tries = retries + 1
        self._throttle = Throttle(max_concurrency)
        self._sleep = sleep
        self._draw = draw

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``; raises :class:`ModelUnavailable` when the tries ran out."""
        retrying = AsyncRetrying(
            sleep=self._pause,
            stop=stop_after_attempt(self._tries),
            wait=self._wait,
            retry=retry_if_exception_type(TransientFailure),
            reraise=True,
        )
        try:
            return await retrying(self._try, request)
        except TransientFailure as failure:
            tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
            raise ModelUnavailable(
                f"The {request.role} model did not answer after {tries}: {failure.message}"
            ) from failure

    async def _try(self, request: ChatRequest) -> ChatReply:
        async with AsyncExitStack() as place:
            with off_the_clock():
                since = await place.enter_async_context(self._throttle.slot())
            started = asyncio.get_running_loop().time()
            try:
                reply = await self._inner.complete(request)
            except TransientFailure as failure:
                refund(asyncio.get_running_loop().time() - started)
                if failure.overloaded:
                    wish = _bearable(failure.retry_after)
                    self._throttle.overloaded(since, wish)
                raise
            self._throttle.answered()
            return reply

    async def _pause(self, seconds: float) -> None:
        with off_the_clock():
            await self._sleep(seconds)

    def _wait(self, state: RetryCallState) -> float:
        failure = state.outcome.exception() if state.outcome else None
        asked = failure.retry_after if isinstance(failure, TransientFailure) else None
        return backoff(state.attempt_number, asked, self._draw)
