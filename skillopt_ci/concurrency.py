"""Bounded concurrency whose results do not depend on the order of completion."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TypeVar

from skillopt_ci.errors import BudgetExhausted

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


def _first(failures: BaseExceptionGroup) -> BaseException:
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
