"""Opening the clients of roles that a server answers, with what they share and what they need."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import ModuleType

from skillopt_ci.config.models import Azure, ModelRole
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.client import ChatClient, Role
from skillopt_ci.progress import Observer
from skillopt_ci.util import lasting_import

#: Gives the headers that prove who we are, anew for each call.
Headers = Callable[[], Awaitable[Mapping[str, str]]]

# The libraries are imported late: they take long to import, and offline commands do without.
# ruff: noqa: PLC0415


async def open_servers(
    configs: Mapping[Role, ModelRole],
    keys: Mapping[Role, str],
    resources: AsyncExitStack,
    observe: Observer,
) -> dict[Role, ChatClient]:
    """A client for each role; roles of one protocol share connections, which ``resources`` closes.

    Raises :class:`ModelSetupError` if the package for a provider is not installed.
    """
    clients: dict[Role, ChatClient] = {}
    messages = {role: one for role, one in configs.items() if one.preset.protocol == "messages"}
    if messages:
        module = _anthropic(messages)
        pool = await resources.enter_async_context(module.connection_pool(_size(messages)))
        clients |= {
            role: module.anthropic_client(f"model.{role}", one, keys[role], pool, observe)
            for role, one in messages.items()
        }
    chats = {role: one for role, one in configs.items() if role not in messages}
    if chats:
        lasting_import("openai")
        from skillopt_ci.model.openai_client import connection_pool, openai_client

        shared = await resources.enter_async_context(connection_pool(_size(chats)))
        for role, one in chats.items():
            name = f"model.{role}"
            headers = _signed_in(name, one.azure) if one.azure else _no_headers
            clients[role] = openai_client(name, one, keys[role], shared, headers, observe)
    return clients


def _size(configs: Mapping[Role, ModelRole]) -> int:
    return sum(config.max_concurrency for config in configs.values())


def _anthropic(configs: Mapping[Role, ModelRole]) -> ModuleType:
    try:
        lasting_import("anthropic")
        from skillopt_ci.model import anthropic_client
    except ModuleNotFoundError as error:
        raise _not_installed(f"model.{next(iter(configs))}", "anthropic") from error
    return anthropic_client


def _signed_in(section: str, azure: Azure) -> Headers:
    if azure.auth == "key":
        return _no_headers
    try:
        from skillopt_ci.model.azure_token import signed_in
    except ModuleNotFoundError as error:
        raise _not_installed(section, "azure") from error
    return signed_in(section, azure)


async def _no_headers() -> Mapping[str, str]:
    return {}


def _not_installed(section: str, extra: str) -> ModelSetupError:
    return ModelSetupError(
        f"{section} needs a package that is not installed",
        hint=f"Install it: pip install 'skillopt-ci[{extra}]'.",
    )
