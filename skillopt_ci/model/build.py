"""Open a run's models from its configuration."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from skillopt_ci.aio import Slots
from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import InfrastructureError, ModelSetupError
from skillopt_ci.messages import Message
from skillopt_ci.model.access import api_key, connection_pool, headers_of, uses_responses
from skillopt_ci.model.anthropic_provider import MESSAGES
from skillopt_ci.model.budget import BudgetedClient, Meter, Tariff, tariffs
from skillopt_ci.model.cache import CachedClient, CallCache, call_key
from skillopt_ci.model.command import CommandClient
from skillopt_ci.model.openai_provider import CHAT, RESPONSES
from skillopt_ci.model.providers import ServerClient, Wire
from skillopt_ci.model.retry import RetryingClient, Throttle
from skillopt_ci.model.types import ChatClient, ChatRequest, ModelRefusal, Role
from skillopt_ci.progress import Observer, silent
from skillopt_ci.redaction import Redact, unchanged
from skillopt_ci.scorers.base import GRADING, GraderBroke, GraderError


@dataclass(frozen=True, slots=True)
class ModelRouter:
    """Open models with one pool and cache. With ``locks``, identical requests share one call."""

    roles: Mapping[str, ModelRole]
    tariffs: Mapping[str, Tariff]
    clients: Mapping[Role, ChatClient]
    cache: CallCache | None
    redact: Redact
    locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def for_work(
        self,
        scope: str,
        meter: Meter,
        used: Callable[[str], object] = silent,
        questions: Slots | None = None,
    ) -> ChatClient:
        """A client limited by the budgets of ``meter``; the cache records ``scope`` as the payer.

        ``used`` gets the cache key of each answer. Raises ModelSetupError for a missing price.
        """
        meter.require_prices(self.tariffs)
        client = BudgetedClient(
            self.clients, meter, self.tariffs, redact=self.redact, questions=questions
        )
        if self.cache is None:
            return client
        return CachedClient(
            client,
            self.cache,
            key_of=lambda request: call_key(self.roles[request.role], request),
            scope=scope,
            meter=meter,
            used=used,
            locks=self.locks,
        )


@asynccontextmanager
async def open_router(
    roles: Mapping[str, ModelRole],
    environ: Mapping[str, str],
    *,
    cache_path: Path | None = None,
    root: Path = Path(),
    observe: Observer = silent,
    redact: Redact = unchanged,
) -> AsyncIterator[ModelRouter]:
    """The models of ``roles``; ``cache_path`` None means no cache.

    ``root`` is the configuration's folder. ModelSetupError if a key, program or package is missing.
    """
    async with AsyncExitStack() as resources:
        configs = {Role(name): config for name, config in roles.items()}
        clients: dict[Role, ChatClient] = {}
        pools: dict[str, Any] = {}  # roles with the same protocol share connections
        reached: dict[str, asyncio.Event] = {}  # by address
        for role, one in configs.items():
            section, protocol = f"model.{role}", one.preset.protocol
            if protocol == "simulated":
                from skillopt_ci.demo.client import SimulatedClient  # noqa: PLC0415 - for the quickstart

                clients[role] = SimulatedClient(one, role)
                continue
            if protocol == "command":
                client: ChatClient = CommandClient(section, one, root, environ)
            else:
                key = api_key(section, one, environ, root)
                alike = (each for each in configs.values() if each.preset.protocol == protocol)
                try:
                    if protocol not in pools:
                        pools[protocol] = await resources.enter_async_context(
                            connection_pool(one, sum(each.max_concurrency for each in alike))
                        )
                    client = ServerClient(
                        *(section, one, wire_of(one), key, pools[protocol]),
                        headers=headers_of(section, one, environ),
                        observe=observe,
                    )
                except ModuleNotFoundError as error:
                    extra = "anthropic" if protocol == "messages" else "azure"
                    raise ModelSetupError(
                        f"{section} needs a package that is not installed",
                        hint=f"Install it: pip install 'skillopt-ci[{extra}]'.",
                    ) from error
            clients[role] = RetryingClient(
                *(client, one.retries, Throttle(one.max_concurrency), section, observe),
                reached=reached.setdefault(one.base_url or one.provider, asyncio.Event()),
            )
        clients.setdefault(Role.JUDGE, clients[Role.OPTIMIZER])
        cache = None
        if cache_path is not None:
            cache = resources.enter_context(closing(await CallCache.opened(cache_path, observe)))
        yield ModelRouter(
            {"judge": roles["optimizer"], **roles}, tariffs(roles), clients, cache, redact
        )


async def judge_reply(client: ChatClient, prompt: str) -> str:
    """The judge model's reply; a :data:`Judge`, once the client is given."""
    request = ChatRequest(Role.JUDGE, "judge", (Message("user", prompt),), attempt=GRADING.get())
    try:
        return (await client.complete(request)).text
    except ModelRefusal as refusal:
        raise GraderBroke(f"the judge refuses: {refusal.message}") from refusal
    except InfrastructureError as failure:
        # not the target's failure: its answer exists, only the grade is missing
        raise GraderError(f"the judge could not be asked: {failure.message}") from failure


def wire_of(config: ModelRole) -> Wire:
    if config.preset.protocol == "messages":
        return MESSAGES
    return RESPONSES if uses_responses(config) else CHAT
