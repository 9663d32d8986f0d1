"""Bounded concurrency, slots shared by all work of a run, and limits on working time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from skillopt_ci.errors import BudgetExhausted, TooManyErrors

Item = TypeVar("Item")
Result = TypeVar("Result")


@asynccontextmanager
async def siblings() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises its first failure unwrapped: callers need its type and cause."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from first.__cause__


@dataclass(frozen=True, slots=True, eq=False)
class Begun(AbstractAsyncContextManager["Begun[Item, Result]"], Generic[Item, Result]):
    """Work on items that can begin before its result is needed.

    Unfinished work is cancelled at the end. Only if a budget runs out or there are too many errors
    does it finish, since it is paid for.
    """

    work: Callable[[Item], Awaitable[Result]]
    tasks: dict[Item, asyncio.Future[Result]] = field(default_factory=dict)

    async def __aexit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, BudgetExhausted | TooManyErrors):
            for task in self.tasks.values():
                task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    def begin(self, item: Item) -> None:
        if item not in self.tasks:
            self.tasks[item] = asyncio.ensure_future(self.work(item))

    async def result(self, item: Item) -> Result:
        self.begin(item)
        return await asyncio.shield(self.tasks[item])


async def map_ordered(
    work: Callable[[Item], Awaitable[Result]], items: Iterable[Item], *, limit: int
) -> list[Result]:
    """Like :func:`stream`, but return all results in item order."""

    async def numbered(drawn: tuple[int, Item]) -> tuple[int, Result]:
        return drawn[0], await work(drawn[1])

    found = dict([one async for one in stream(numbered, enumerate(items), limit=limit)])
    return [found[number] for number in sorted(found)]


async def stream(
    work: Callable[[Item], Awaitable[Result]], items: Iterable[Item], *, limit: int
) -> AsyncGenerator[Result, None]:
    """Apply ``work`` to every item, ``limit`` at a time, and yield each result as it arrives.

    At most four times ``limit`` results are started but not yet taken, so a long iterable needs
    little memory. The first failure cancels all work under way and is raised unchanged. Only when
    a budget runs out does that work finish first, since it is paid for. If you do not take all
    results, close the generator to cancel the work under way.
    """
    window = asyncio.Semaphore(4 * limit)
    done = asyncio.Queue[tuple[Result] | BaseException | None]()
    source = ((item,) for item in items)
    exhausted: list[BudgetExhausted] = []

    async def worker(drawn: tuple[Item] | None) -> None:
        while await window.acquire() and not exhausted:
            if drawn is None and (drawn := next(source, None)) is None:
                break
            try:
                done.put_nowait((await work(*drawn),))
            except BudgetExhausted as error:
                exhausted.append(error)
            if exhausted:
                break
            drawn = None
        window.release()  # wake the other workers, so that they see the end too

    async def produce() -> None:
        try:
            async with siblings() as group:
                for drawn in tuple(islice(source, limit)):  # no more workers than items
                    group.create_task(worker(drawn))
            done.put_nowait(exhausted[0] if exhausted else None)
        except BaseException as error:  # noqa: BLE001 - raised to the consumer
            done.put_nowait(error)

    workers = asyncio.create_task(produce())
    try:
        while (found := await done.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found[0]
            window.release()
    finally:
        workers.cancel()
        await asyncio.gather(workers, return_exceptions=True)


class Slots(asyncio.Semaphore):
    """At most ``limit`` pieces of work at once, first come, first served, in one event loop."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class TimeUp(Exception):
    """The working time is over."""


@dataclass(slots=True)
class _Clock:
    """One running limit; ``_waiting`` counts the callers that have stopped it."""

    _timeout: asyncio.Timeout
    _waiting: int = 0
    _left: float = 0.0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        self._waiting += 1
        when = self._timeout.when()
        if self._waiting == 1 and when is not None and not self._timeout.expired():
            self._left = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting and not self._timeout.expired():
                self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    def refund(self, seconds: float) -> None:
        if (when := self._timeout.when()) is None:
            self._left += seconds
        elif not self._timeout.expired():
            self._timeout.reschedule(when + seconds)


_CLOCK: ContextVar[_Clock | None] = ContextVar("working_time", default=None)


@asynccontextmanager
async def working_time(seconds: float | None) -> AsyncIterator[None]:
    """Cancel the body after ``seconds`` of working time (None: never); raises :class:`TimeUp`."""
    timeout = asyncio.timeout(seconds)
    token = _CLOCK.set(None if seconds is None else _Clock(timeout))
    try:
        async with timeout:
            yield
    except TimeoutError:
        if timeout.expired():
            raise TimeUp from None
        raise
    finally:
        _CLOCK.reset(token)


def off_the_clock() -> AbstractContextManager[None]:
    """Exclude the body from the working time."""
    clock = _CLOCK.get()
    return nullcontext() if clock is None else clock.stopped()


def refund(seconds: float) -> None:
    """Add back working time that was lost through no fault of the work."""
    if (clock := _CLOCK.get()) is not None:
        clock.refund(seconds)


def raise_if_cancelled() -> None:
    """Raise CancelledError if this task was cancelled and what it waited for swallowed that."""
    if (task := asyncio.current_task()) and task.cancelling():
        raise asyncio.CancelledError


async def shielded(work: Awaitable[Result]) -> Result:
    """Wait until ``work``, such as cleaning up, is finished; only then raise a cancellation."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None and not task.cancelled():
        task.exception()  # mark it as retrieved: the cancellation takes precedence
        raise cancellation
    return task.result()
