"""Assembling the models of a run from their configuration."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from skillopt_ci.config.models import ModelRole, Models
from skillopt_ci.model.budget import Meter, MeteredClient, Tariff, tariffs
from skillopt_ci.model.cache import CachedClient, CallCache, call_key
from skillopt_ci.model.command import CommandClient
from skillopt_ci.model.keys import api_key, resolved_key_values
from skillopt_ci.model.middleware import RedactingClient
from skillopt_ci.model.providers import open_servers
from skillopt_ci.model.retry import Doorway, OrderlyClient, RetryingClient
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, Role
from skillopt_ci.progress import Observer, silent
from skillopt_ci.redaction import Redact, unchanged

__all__ = ["open_models", "resolved_key_values"]


@dataclass(frozen=True, slots=True)
class Switchboard:
    """Open models: one pool of connections and one cache, for one piece of work after the other.

    ``client`` is that of all roles. Identical requests share one call, whichever work makes them:
    ``locks`` hold the keys of the calls under way. ``tariffs`` are what each role's calls cost.
    """

    models: Models
    tariffs: Mapping[str, Tariff]
    client: ChatClient
    cache: CallCache | None
    redact: Redact
    locks: WeakValueDictionary[str, asyncio.Lock]

    def for_work(
        self, scope: str, meter: Meter, used: Callable[[str], object] = lambda _: None
    ) -> ChatClient:
        """A client whose calls ``meter`` holds to the budgets and ``scope`` pays for.

        ``used`` hears of the key of each cached answer. Raises
        :class:`~skillopt_ci.errors.ModelSetupError` for a missing price.
        """
        meter.require_prices(self.models)
        client = MeteredClient(RedactingClient(self.client, self.redact), meter, self.tariffs)
        if self.cache is None:
            return client
        configs = _configs(self.models)
        return CachedClient(
            client,
            self.cache,
            key_of=lambda request: call_key(configs[request.role], request),
            scope=scope,
            meter=meter,
            used=used,
            locks=self.locks,
        )


@asynccontextmanager
async def open_switchboard(
    models: Models,
    environ: Mapping[str, str],
    *,
    cache_path: Path | None,
    root: Path = Path(),
    observe: Observer = silent,
    redact: Redact = unchanged,
) -> AsyncIterator[Switchboard]:
    """The models of all roles, whose connections and cache close with the context.

    ``cache_path`` None means no cache. ``root`` is the configuration's folder, for commands and
    key files; ``redact`` takes secrets out of prompts, answers and errors; ``observe`` hears of a
    damaged cache and of parameters that a server does not support. Raises
    :class:`~skillopt_ci.errors.ModelSetupError` for an absent key or program.
    """
    async with AsyncExitStack() as resources:
        clients = await _open_roles(_distinct(models), environ, root, resources, observe)
        clients.setdefault(Role.JUDGE, clients[Role.OPTIMIZER])
        cache = None
        if cache_path is not None:
            cache = resources.enter_context(closing(CallCache(cache_path, observe)))
        client, locks = RoutedClient(clients), WeakValueDictionary[str, asyncio.Lock]()
        yield Switchboard(models, tariffs(models), client, cache, redact, locks)


@asynccontextmanager
async def open_models(
    models: Models,
    environ: Mapping[str, str],
    *,
    cache_path: Path | None,
    scope: str,
    meter: Meter,
    root: Path = Path(),
    observe: Observer = silent,
    used: Callable[[str], object] = lambda _: None,
    redact: Redact = unchanged,
) -> AsyncIterator[ChatClient]:
    """A client of all roles for one piece of work, opened and closed with it.

    See :func:`open_switchboard` and :meth:`Switchboard.for_work`, whose errors are raised before
    any call.
    """
    meter.require_prices(models)
    opened = open_switchboard(
        models, environ, cache_path=cache_path, root=root, observe=observe, redact=redact
    )
    async with opened as switchboard:
        yield switchboard.for_work(scope, meter, used)


@dataclass(frozen=True, slots=True)
class RoutedClient:
    """Sends each request to the client of its role."""

    clients: Mapping[Role, ChatClient]

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``."""
        return await self.clients[request.role].complete(request)


def _distinct(models: Models) -> dict[Role, ModelRole]:
    judge = {} if models.judge is None else {Role.JUDGE: models.judge}
    return {Role.TARGET: models.target, Role.OPTIMIZER: models.optimizer, **judge}


def _configs(models: Models) -> dict[Role, ModelRole]:
    return {Role.JUDGE: models.optimizer, **_distinct(models)}


async def _open_roles(
    configs: Mapping[Role, ModelRole],
    environ: Mapping[str, str],
    root: Path,
    resources: AsyncExitStack,
    observe: Observer,
) -> dict[Role, ChatClient]:
    by_protocol: dict[str, dict[Role, ModelRole]] = {"simulated": {}, "command": {}, "server": {}}
    for role, one in configs.items():
        by_protocol[_kind(one)][role] = one
    clients = {role: _simulated(role, one) for role, one in by_protocol["simulated"].items()}
    clients |= {
        role: _retrying(CommandClient(f"model.{role}", one, root, environ), one)
        for role, one in by_protocol["command"].items()
    }
    if by_protocol["server"]:
        clients |= await _open_remote(by_protocol["server"], environ, root, resources, observe)
    return clients


def _kind(config: ModelRole) -> str:
    protocol = config.preset.protocol
    return protocol if protocol in ("simulated", "command") else "server"


async def _open_remote(
    configs: Mapping[Role, ModelRole],
    environ: Mapping[str, str],
    root: Path,
    resources: AsyncExitStack,
    observe: Observer,
) -> dict[Role, ChatClient]:
    keys = {
        role: api_key(f"model.{role}", config, environ, root) for role, config in configs.items()
    }
    clients, doorway = await open_servers(configs, keys, resources, observe), Doorway()
    return {
        role: _retrying(OrderlyClient(client, doorway), configs[role])
        for role, client in clients.items()
    }


def _retrying(client: ChatClient, config: ModelRole) -> ChatClient:
    return RetryingClient(client, retries=config.retries, max_concurrency=config.max_concurrency)


def _simulated(role: Role, config: ModelRole) -> ChatClient:
    from skillopt_ci.demo.client import SimulatedClient  # noqa: PLC0415

    return SimulatedClient(config, role)
