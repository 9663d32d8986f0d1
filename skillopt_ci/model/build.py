"""Assembling the models of a run from their configuration."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.model.cache import CallCache
from skillopt_ci.model.cached_client import CachedClient
from skillopt_ci.model.call_key import call_key
from skillopt_ci.model.client import ChatClient, ChatReply, ChatRequest, Role
from skillopt_ci.model.command_client import CommandClient
from skillopt_ci.model.keys import api_key, resolved_key_values
from skillopt_ci.model.meter import Meter
from skillopt_ci.model.metered_client import MeteredClient
from skillopt_ci.model.retrying import RetryingClient
from skillopt_ci.progress import Observer, silent
from skillopt_ci.settings.model import ModelRole, Models

__all__ = ["open_models", "resolved_key_values"]


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
) -> AsyncIterator[ChatClient]:
    """A client for all roles, whose connections and cache close with the context.

    ``cache_path`` None means no cache. ``scope`` names the step that pays for calls; ``root`` is
    the configuration's folder, for commands; ``observe`` hears of a damaged cache and of
    parameters that a server does not support, ``used`` of the key of each cached answer. Raises
    :class:`~skillopt_ci.errors.ModelSetupError` before any call for an absent key or program or a
    missing price.
    """
    meter.require_prices(models)
    configs = _configs(models)
    async with AsyncExitStack() as resources:
        clients = await _open_roles(_distinct(models), environ, root, resources, observe)
        clients.setdefault(Role.JUDGE, clients[Role.OPTIMIZER])
        client: ChatClient = MeteredClient(RoutedClient(clients), meter)
        if cache_path is not None:
            cache = resources.enter_context(closing(CallCache(cache_path, observe)))
            client = CachedClient(
                client,
                cache,
                key_of=lambda request: call_key(configs[request.role], request),
                scope=scope,
                meter=meter,
                used=used,
            )
        yield client


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
    by_provider = {
        provider: {role: one for role, one in configs.items() if one.provider == provider}
        for provider in ("simulated", "command", "openai")
    }
    clients = {role: _simulated(role, one) for role, one in by_provider["simulated"].items()}
    clients |= {
        role: _retrying(CommandClient(f"model.{role}", one, root, environ), one)
        for role, one in by_provider["command"].items()
    }
    if by_provider["openai"]:
        clients |= await _open_remote(by_provider["openai"], environ, resources, observe)
    return clients


async def _open_remote(
    configs: Mapping[Role, ModelRole],
    environ: Mapping[str, str],
    resources: AsyncExitStack,
    observe: Observer,
) -> dict[Role, ChatClient]:
    keys = {role: api_key(f"model.{role}", config, environ) for role, config in configs.items()}
    # Imported late: the openai package takes long to import and offline commands do without.
    from skillopt_ci.model.openai_client import OpenAIClient, connection_pool  # noqa: PLC0415

    size = sum(config.max_concurrency for config in configs.values())
    pool = await resources.enter_async_context(connection_pool(size))
    return {
        role: _retrying(OpenAIClient(f"model.{role}", config, keys[role], pool, observe), config)
        for role, config in configs.items()
    }


def _retrying(client: ChatClient, config: ModelRole) -> ChatClient:
    return RetryingClient(client, retries=config.retries, max_concurrency=config.max_concurrency)


def _simulated(role: Role, config: ModelRole) -> ChatClient:
    from skillopt_ci.model.simulated.client import SimulatedClient  # noqa: PLC0415

    return SimulatedClient(config, role)
