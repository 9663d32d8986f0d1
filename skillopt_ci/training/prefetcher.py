"""Ahead: attempts that are made before the work that needs them has its turn.

An attempt that was made early is found where all are kept: in the cache of calls and in the store
of attempts, unclaimed. The work that needs it accounts for it, as for what another machine made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from skillopt_ci.aio import Scheduler
from skillopt_ci.model.types import Usage
from skillopt_ci.rollout.types import AttemptRequest
from skillopt_ci.skill.regions import reading_sha256

Reach = Literal["none", "sure", "likely"]
#: What tells attempts apart: task, skill as it is read, number.
_Key = tuple[str, str, int]


class Ahead(Protocol):
    """What is made early, as the work at hand foresees it."""

    reach: Reach
    """What is made early: nothing, what is sure to be needed, or what is likely to be."""

    def expect(self, orders: Iterable[AttemptRequest], *, sure: bool) -> None:
        """Make ``orders`` from now on, and begin nothing else; ``sure`` are to be needed.

        Those are made as soon as there are places, the others in places that stay empty.
        """
        ...

    def fork(self, *, merged: Sequence[AttemptRequest], rejected: Sequence[AttemptRequest]) -> None:
        """Know what is needed after either verdict; nothing is made of it yet."""
        ...

    def favour(self, *, merged: bool) -> None:
        """Expect what is needed if the candidate is merged, or if it is not: it looks like it."""
        ...

    async def begun(self, order: AttemptRequest) -> None:
        """Return when ``order`` is not under way: it was made, or is to be made by the caller."""
        ...

    def lost(self) -> Usage:
        """What was spent on attempts of no use, since the last time that this was asked."""
        ...


class NothingAhead:
    """Everything has its turn."""

    reach: Reach = "none"

    def expect(self, orders: Iterable[AttemptRequest], *, sure: bool) -> None:
        """Make nothing."""

    def fork(self, *, merged: Sequence[AttemptRequest], rejected: Sequence[AttemptRequest]) -> None:
        """Make nothing of either."""

    def favour(self, *, merged: bool) -> None:
        """Make nothing."""

    async def begun(self, order: AttemptRequest) -> None:
        """Nothing was."""

    def lost(self) -> Usage:
        """Nothing was."""
        return Usage()


@dataclass(slots=True)
class _Early:
    """An attempt that is to be made early; ``spent`` is None as long as it is not made."""

    order: AttemptRequest
    sure: bool
    begun: bool = False
    taken: bool = False
    spent: Usage | None = None
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    @property
    def used(self) -> bool:
        return self.taken and self.spent is not None


class WorkAhead:
    """Makes attempts early: ``make`` makes one and says what it cost.

    Whether an attempt is begun is decided as late as there is a place for it; until then it can be
    taken back. One that is under way is never broken off: it is paid for.
    """

    def __init__(
        self,
        make: Callable[[AttemptRequest], Awaitable[Usage]],
        scheduler: Scheduler,
        reach: Reach = "sure",
    ) -> None:
        self.reach = reach
        self._make = make
        self._scheduler = scheduler
        self._known: dict[_Key, _Early] = {}
        self._wanted: set[_Key] = set()
        self._fork: dict[bool, Sequence[AttemptRequest]] = {}
        self._names: dict[str, str] = {}

    def expect(self, orders: Iterable[AttemptRequest], *, sure: bool) -> None:
        """Make ``orders`` from now on; what was expected and is not begun is forgotten."""
        wanted = {self._key(order): order for order in orders}
        if sure:
            self._fork = {}
        for key, early in list(self._known.items()):
            if (not early.begun and (key not in wanted or sure)) or early.used:
                self._forget(key, early)
        self._wanted = set(wanted)
        self._names = {order.skill: key[1] for key, order in wanted.items()}
        for key, order in wanted.items():
            if key not in self._known:
                self._known[key] = early = _Early(order, sure)
                early.task = asyncio.create_task(self._work(early))

    def fork(self, *, merged: Sequence[AttemptRequest], rejected: Sequence[AttemptRequest]) -> None:
        """Know what :meth:`favour` is to expect."""
        self._fork = {True: merged, False: rejected}

    def favour(self, *, merged: bool) -> None:
        """Expect one side of the last fork, in places that stay empty."""
        if merged in self._fork:
            self.expect(self._fork[merged], sure=False)

    async def begun(self, order: AttemptRequest) -> None:
        """Wait for ``order`` if it is under way; raises what went wrong with it."""
        key = self._key(order)
        early = self._known.get(key)
        if early is None or early.task is None:
            return
        if not early.begun:
            self._forget(key, early)
            return
        early.taken = True
        await asyncio.shield(early.task)

    def lost(self) -> Usage:
        """What was spent on attempts that are made, and neither used nor wanted any more."""
        found = dict(self._useless())
        for key in found:
            del self._known[key]
        return sum(found.values(), Usage())

    async def close(self, *, patient: bool) -> None:
        """End it: with patience, what is under way is let finish, since it is paid for."""
        self.expect((), sure=True)
        tasks = [early.task for early in self._known.values() if early.task is not None]
        if not patient:
            for task in tasks:
                task.cancel()
        # what failed is raised to who needs it; nobody does
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, early: _Early) -> None:
        places = self._scheduler
        async with places.attempts.slot() if early.sure else places.spare():
            early.begun = True
            early.spent = await self._make(early.order)

    def _forget(self, key: _Key, early: _Early) -> None:
        del self._known[key]
        if early.task is not None:
            early.task.cancel()

    def _useless(self) -> Iterator[tuple[_Key, Usage]]:
        for key, early in self._known.items():
            if early.spent is not None and not early.taken and key not in self._wanted:
                yield key, early.spent

    def _key(self, order: AttemptRequest) -> _Key:
        name = self._names.get(order.skill)
        if name is None:
            name = self._names[order.skill] = reading_sha256(order.skill)
        return order.task.id, name, order.attempt
