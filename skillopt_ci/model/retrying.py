"""Trying a call again while its failures may pass, and how many tries a role has under way."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
)

from skillopt_ci.aio import off_the_clock, refund
from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest, ModelUnavailable
from skillopt_ci.model.throttle import Throttle
from skillopt_ci.model.transient import TransientFailure

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
