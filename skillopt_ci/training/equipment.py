"""Equipment: what all pieces of work of a session share while it is open."""

import asyncio
from contextlib import AsyncExitStack, closing

from skillopt_ci.aio import Scheduler
from skillopt_ci.config.config import Config
from skillopt_ci.model.build import Switchboard, open_switchboard
from skillopt_ci.rollout.store import AttemptStore
from skillopt_ci.training.rig_parts import ModelParts, RigParts


class Equipment:
    """One pool of connections, one cache, one store and one scheduler, closed with ``resources``.

    All is opened by the first work that needs it: a run with nothing to do needs no key.
    """

    def __init__(self, config: Config, resources: AsyncExitStack) -> None:
        self.scheduler = Scheduler(
            config.model.target.max_concurrency, config.gradient.analyst_workers
        )
        self._resources = resources
        self._models: Switchboard | None = None
        self._opening = asyncio.Lock()
        self._store: AttemptStore | None = None

    async def models(self, parts: ModelParts) -> Switchboard:
        """The open models."""
        async with self._opening:
            if self._models is None:
                opened = open_switchboard(
                    parts.config.model,
                    parts.environ,
                    cache_path=parts.cache_path,
                    root=parts.root,
                    observe=parts.observer,
                    redact=parts.redact,
                )
                self._models = await self._resources.enter_async_context(opened)
            return self._models

    def store(self, parts: RigParts) -> AttemptStore | None:
        """The open store of attempts, if they are kept.

        It is opened once: the whole file is checked then, however much is in it.
        """
        if self._store is None and parts.attempts_path is not None:
            store = AttemptStore(parts.attempts_path, parts.observer)
            self._store = self._resources.enter_context(closing(store))
        return self._store
