"""Bounded concurrency whose results do not depend on the order of completion."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from skillopt_ci.errors import BudgetExhausted, TooManyErrors

Item = TypeVar("Item")
Result = TypeVar("Result")


@asynccontextmanager
async def siblings() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group that raises the first failure itself instead of a group around it.

    Callers act on the type of the failure (a budget, a wrong key); the group would hide it.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise _first(failures) from None


class Begun(Generic[Item, Result]):
    """Work on items that may begin before its result is asked for; see :func:`begun`."""

    def __init__(self, work: Callable[[Item], Awaitable[Result]]) -> None:
        self._work = work
        self._tasks: dict[Item, asyncio.Future[Result]] = {}

    @property
    def any(self) -> bool:
        """Whether work on some item was begun."""
        return bool(self._tasks)

    def begin(self, item: Item) -> None:
        """Begin the work on ``item``, if that was not done before."""
        if item not in self._tasks:
            self._tasks[item] = asyncio.ensure_future(self._work(item))

    async def result(self, item: Item) -> Result:
        """What comes of the work on ``item``, or its failure."""
        self.begin(item)
        return await asyncio.shield(self._tasks[item])

    async def end(self, *, cancel: bool) -> None:
        """Wait until nothing is under way any more; ``cancel`` it first."""
        for task in self._tasks.values():
            if cancel:
                task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


@asynccontextmanager
async def begun(
    work: Callable[[Item], Awaitable[Result]],
) -> AsyncIterator[Begun[Item, Result]]:
    """Let ``work`` on items begin ahead of time; what nobody waits for at the end is cancelled.

    What is under way is let finish where an orderly end keeps what was paid for: when a budget is
    used up, or too many errors forbid a statement.
    """
    ahead = Begun(work)
    try:
        yield ahead
    except (BudgetExhausted, TooManyErrors):
        await ahead.end(cancel=False)
        raise
    finally:
        await ahead.end(cancel=True)


async def map_ordered(
    work: Callable[[Item], Awaitable[Result]], items: Iterable[Item], *, limit: int
) -> list[Result]:
    """Apply ``work`` to every item, ``limit`` at a time, and return the results in item order.

    The first failure cancels what is under way and is raised as it is; only when a budget is used
    up is work that had begun let finish, for it is paid for. Items are drawn as workers come free,
    so a long iterable costs no more memory than its results.
    """
    results: dict[int, Result] = {}
    exhausted: list[BudgetExhausted] = []
    source: Iterator[tuple[int, Item]] = iter(enumerate(items))

    async def worker() -> None:
        for index, item in source:
            try:
                results[index] = await work(item)
            except BudgetExhausted as error:
                exhausted.append(error)
            if exhausted:
                return

    async with siblings() as group:
        for _ in range(limit):
            group.create_task(worker())
    if exhausted:
        raise exhausted[0]
    return [results[index] for index in sorted(results)]


async def stream(
    work: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item],
    *,
    limit: int,
    ordered: bool = False,
) -> AsyncGenerator[Result, None]:
    """Apply ``work`` to every item, ``limit`` at a time, and yield each result as it comes.

    With ``ordered`` they come in item order. At most four times ``limit`` items are begun and not
    yet taken, so a long iterable costs no memory. Failures are as with :func:`map_ordered`. Who
    does not take all results must close the generator; what is under way is then cancelled.
    """
    window = asyncio.Semaphore(4 * limit)
    done = asyncio.Queue[tuple[int, Result] | BaseException | None]()
    workers = asyncio.create_task(_work_through(work, items, limit, window, done))
    waiting: dict[int, Result] = {}
    following = 0
    try:
        while (found := await done.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            index, result = found
            waiting[index if ordered else following] = result
            while following in waiting:
                yield waiting.pop(following)
                following += 1
                window.release()
    finally:
        workers.cancel()
        await asyncio.gather(workers, return_exceptions=True)


async def _work_through(
    work: Callable[[Item], Awaitable[Result]],
    items: Iterable[Item],
    limit: int,
    window: asyncio.Semaphore,
    done: asyncio.Queue[tuple[int, Result] | BaseException | None],
) -> None:
    """Put the result of each item into ``done`` with its index; at the end None, or a failure."""
    source = iter(enumerate(items))
    exhausted: list[BudgetExhausted] = []

    async def worker() -> None:
        while await window.acquire() and not exhausted:
            try:
                index, item = next(source)
            except StopIteration:
                window.release()
                return
            try:
                done.put_nowait((index, await work(item)))
            except BudgetExhausted as error:
                exhausted.append(error)
                for _ in range(limit):
                    window.release()  # nobody waits for room any more

    try:
        async with siblings() as group:
            for _ in range(limit):
                group.create_task(worker())
    except BaseException as error:  # noqa: BLE001 - raised by who takes the results
        done.put_nowait(error)
    else:
        done.put_nowait(exhausted[0] if exhausted else None)


def _first(failures: BaseExceptionGroup) -> BaseException:
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
