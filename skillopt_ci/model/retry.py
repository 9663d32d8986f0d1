"""Retries of transient failures, and the limit of a role's calls in flight."""

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from skillopt_ci.aio import off_the_clock, refund
from skillopt_ci.errors import InfrastructureError, SkilloptError
from skillopt_ci.model.types import (
    ChatClient,
    ChatReply,
    ChatRequest,
    ModelUnavailable,
    Usage,
    bill,
    billed,
)
from skillopt_ci.progress import Note, Observer, silent


class Throttle:
    """Limits calls in flight to ``ceiling``, and to fewer under overload. For one event loop."""

    def __init__(self, ceiling: int) -> None:
        self._ceiling = self._window = float(ceiling)
        self._under_way = 0
        self._resume_at = 0.0
        self._halvings = 0
        #: Held by the first waiter, which checks again whenever a slot is freed.
        self._queue = asyncio.Lock()
        self._freed = asyncio.Event()

    @property
    def limit(self) -> int:
        return int(self._window)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[int]:
        """Wait for a slot and hold it; pass the yielded value to :meth:`overloaded`."""
        async with self._queue:
            while (pause := self._resume_at - _now()) > 0 or self._under_way >= self.limit:
                self._freed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause if pause > 0 else None):
                        await self._freed.wait()
            self._under_way += 1
        try:
            yield self._halvings
        finally:
            self._under_way -= 1
            self._freed.set()

    def answered(self) -> None:
        self._window = min(self._ceiling, self._window + 1 / self._window)

    def overloaded(self, since: int, retry_after: float | None) -> None:
        """Halve the limit, once for all calls with one ``since``; pause as the server asks."""
        if since == self._halvings:
            self._window = max(1.0, self._window / 2)
            self._halvings += 1
        if retry_after is not None:
            self._resume_at = max(self._resume_at, _now() + min(_LONGEST_RETRY_AFTER, retry_after))


def _now() -> float:
    return asyncio.get_running_loop().time()


class TransientFailure(InfrastructureError):
    """One try failed for a reason that may pass.

    ``retry_after``: seconds that the server asks for; ``unreachable``: no connection was made. If
    the last try fails like this, ``reply`` is the answer. A ``usage`` was billed unless estimated.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        overloaded: bool = False,
        unreachable: bool = False,
        reply: ChatReply | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.unreachable = unreachable
        self.reply = reply
        self.usage = usage if usage and not usage.estimated else Usage()
        self.retry_after = retry_after
        self.overloaded = overloaded


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        with suppress(ValueError):
            if 0 <= (number := float(headers.get(name, ""))) < float("inf"):
                return number / unit
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    # A date in "-0000" (or without a zone) parses as naive; HTTP dates are UTC by definition.
    return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())


_WAIT = re.compile(
    r"""(?:(?:try again|retry) (?:in|after)|"retryDelay": ")\s*"""
    r"(?:(?P<minutes>\d{1,9})m)?(?P<number>\d+(?:\.\d+)?) ?(?P<unit>ms|s)",
    re.IGNORECASE,
)


def wait_in_words(error: str) -> float | None:
    """The seconds that the text of an error asks us to wait, as Gemini's does without a header."""
    if (found := _WAIT.search(error)) is None:
        return None
    number = float(found["number"]) / (1000 if found["unit"].lower() == "ms" else 1)
    return 60 * int(found["minutes"] or 0) + number


_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0
_LONGEST_RETRY_AFTER = 120.0
#: Seconds until we give up on a server that was never reached.
_FIRST_CONTACT = 5.0


def backoff(number: int, retry_after: float | None, draw: Callable[[], float]) -> float:
    """Seconds of backoff: exponential in the try (from 1); half is random, to spread calls."""
    if retry_after is None:
        return (1 + draw()) / 2 * min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** min(number - 1, 16))
    return min(_LONGEST_RETRY_AFTER, retry_after) + draw() * _FIRST_BACKOFF


@dataclass(slots=True)
class RetryingClient:
    """Retries calls that end in :class:`TransientFailure`, at most ``retries`` times each.

    A server that was never reached gets only a few seconds: its address is probably wrong. Other
    exceptions pass through. Queueing, pauses and failed tries do not count as working time.
    """

    inner: ChatClient
    retries: int
    throttle: Throttle
    section: str = "model"
    observe: Observer = silent
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    draw: Callable[[], float] = random.random
    #: Set once the server was reached; roles at one address share it.
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    _told: set[str] = field(init=False, default_factory=set)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises ModelUnavailable if retries run out, InfrastructureError if never reached."""
        began, unused, pause = _now(), Usage(), 0.0
        for number in itertools.count(1):
            try:
                if number > 1:
                    with off_the_clock():
                        await self.sleep(pause)
                reply = await self._try(request)
                return replace(reply, usage=unused + reply.usage)
            except TransientFailure as failure:
                last, unused = failure, unused + failure.usage
            except (SkilloptError, asyncio.CancelledError) as end:
                bill(end, unused + billed(end))
                raise
            if not last.unreachable:
                self.reached.set()
            pause = backoff(number, last.retry_after, self.draw)
            spent = number > self.retries
            if not self.reached.is_set() and (spent or _now() - began + pause > _FIRST_CONTACT):
                raise InfrastructureError(
                    f"The {request.role} model cannot be reached: {last.message}",
                    hint=f"Check that its server runs, {self.section}.base_url, the network, its "
                    "proxy (no SOCKS) and its certificate (SSL_CERT_FILE).",
                ) from last
            if spent:
                break
            # numbers and ids differ from message to message, but another status is another cause
            kind = re.sub(r"(?<!\S)(?<!status )\S*\d\S*", "", last.message)
            if kind not in self._told:
                self._told.add(kind)
                said = f"The {request.role} model does not answer: {last.message}"
                self.observe(Note(f"{said.rstrip('.')}. Trying again.", level="warning"))
        if last.reply is not None:
            return replace(last.reply, usage=unused)
        unavailable = ModelUnavailable(
            f"The {request.role} model did not answer after "
            f"{'1 try' if number == 1 else f'{number} tries'}: {last.message}"
        )
        bill(unavailable, unused)
        raise unavailable from last

    async def _try(self, request: ChatRequest) -> ChatReply:
        async with AsyncExitStack() as place:
            with off_the_clock():
                since = await place.enter_async_context(self.throttle.slot())
            started = _now()
            try:
                reply = await self.inner.complete(request)
            except TransientFailure as failure:
                refund(_now() - started)
                if failure.overloaded:
                    self.throttle.overloaded(since, failure.retry_after)
                raise
            self.throttle.answered()
            self.reached.set()
            return reply
