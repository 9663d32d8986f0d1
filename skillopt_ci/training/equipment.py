"""Equipment: what all pieces of work of a session share while it is open."""

from contextlib import AsyncExitStack

from skillopt_ci.model.build import Switchboard, open_switchboard
from skillopt_ci.scheduler import Scheduler
from skillopt_ci.settings.config import Config
from skillopt_ci.training.rig_parts import ModelParts


class Equipment:
    """One pool of connections, one cache and one scheduler, which close with ``resources``.

    The models are opened by the first work that needs them: a run with nothing to do needs no key.
    """

    def __init__(self, config: Config, resources: AsyncExitStack) -> None:
        self.scheduler = Scheduler(
            config.model.target.max_concurrency, config.gradient.analyst_workers
        )
        self._resources = resources
        self._models: Switchboard | None = None

    async def models(self, parts: ModelParts) -> Switchboard:
        """The open models."""
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
