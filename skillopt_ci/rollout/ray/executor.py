"""Attempts made by workers of a Ray cluster, and accounted for here.

A worker hands over the answers that its calls got and the attempts that were kept, not a result.
They are taken into this machine's cache, and then the attempt is made here, from there: what is
recorded is what one machine would have recorded, whoever did the work. What a worker could not do
is simply done here.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skillopt_ci.config.config import Limits
from skillopt_ci.config.rollout import RayExecutor
from skillopt_ci.errors import SkilloptError
from skillopt_ci.model.budget import Meter
from skillopt_ci.progress import Note, Observer
from skillopt_ci.rollout.ray.cluster import join
from skillopt_ci.rollout.ray.parcel import Handover, Parcel
from skillopt_ci.rollout.types import CarryOut, Order, Rollout

#: A worker whose attempt was cancelled has this long to stop what it started.
_STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ClusterExecutor:
    """Sends every order that is not ``known`` to the cluster; joins that when the first one comes.

    ``work`` is what a worker does; workers import it by its name. ``take`` takes in what comes
    back. An attempt may use one of ``parts`` of what ``meter`` has left. ``observe`` is told what
    workers could not do.
    """

    settings: RayExecutor
    work: Callable[[Parcel], Handover]
    parcel: Callable[[Order, Limits], Parcel]
    known: Callable[[Order], bool]
    take: Callable[[Handover], object]
    meter: Meter
    parts: int
    observe: Observer
    _joining: asyncio.Lock = field(default_factory=asyncio.Lock, init=False, repr=False)
    _tasks: list[Any] = field(default_factory=list, init=False, repr=False)
    _told: set[str] = field(default_factory=set, init=False, repr=False)

    async def __call__(self, order: Order, here: CarryOut) -> Rollout:
        """Return what came of ``order``.

        Raises InfrastructureError where there is no cluster, and what ``here`` raises.
        """
        if not self.known(order):
            with self.meter.lent(self.parts) as limits:
                handover = await self._elsewhere(self.parcel(order, limits))
                self._take_in(handover)
        return await here(order)

    async def _elsewhere(self, parcel: Parcel) -> Handover:
        task = await self._joined()
        import ray  # noqa: PLC0415 - large; by now it is loaded

        name = f"skillopt-ci {parcel.order.task.id[:80]}"
        try:
            reference = task.options(name=name).remote(parcel)
        except ConnectionError as error:
            return Handover(trouble=str(error))
        done = asyncio.wrap_future(reference.future())
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:
            ray.cancel(reference)
            # whoever goes on must find nothing running that was started for this
            await asyncio.wait({done}, timeout=_STOP_SECONDS)
            if done.done() and not done.cancelled():
                done.exception()  # nobody else will look at it
            raise
        return _handed_over(done)

    async def _joined(self) -> Any:
        """The work as the cluster knows it, which joins that when asked first."""
        async with self._joining:
            if not self._tasks:
                await asyncio.to_thread(join, self.settings)
                import ray  # noqa: PLC0415

                cpus, restarts = self.settings.cpus, self.settings.restarts
                as_task = ray.remote(num_cpus=cpus, max_retries=restarts, retry_exceptions=False)
                self._tasks.append(as_task(self.work))
        return self._tasks[0]

    def _take_in(self, handover: Handover) -> None:
        trouble = handover.trouble
        try:
            self.take(handover)
        except SkilloptError as error:
            trouble = error.message
        if trouble and trouble not in self._told:
            self._told.add(trouble)
            self.observe(Note(f"Made here, since a Ray worker could not: {trouble}", "warning"))


def _handed_over(done: asyncio.Future[Handover]) -> Handover:
    from ray.exceptions import RayError  # noqa: PLC0415

    try:
        return done.result()
    except RayError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return Handover(trouble=f"{type(error).__name__}: {lines[-1] if lines else 'no reason'}")
