"""Tokens of Azure's directory, for roles that sign in instead of sending a key.

Importing this module imports ``azure.identity``, which is an extra: only when a role needs it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from azure.core.exceptions import AzureError
from azure.identity import (
    AzureCliCredential,
    ManagedIdentityCredential,
    get_bearer_token_provider,
)

from skillopt_ci.config.models import Azure
from skillopt_ci.errors import ModelSetupError

_HINTS = {
    "azure_cli": "Run `az login` first (in GitHub Actions the step azure/login).",
    "managed_identity": "Give the machine an identity with access to the resource; where it has "
    "several, name one in azure.client_id.",
}


def signed_in(section: str, azure: Azure) -> Callable[[], Awaitable[Mapping[str, str]]]:
    """What gives the header that proves who we are; a token is asked for only when one has run out.

    ``section`` (``model.target``) is for messages. Calls raise :class:`ModelSetupError` if there is
    nobody to vouch for us.
    """
    token_of = get_bearer_token_provider(_credential(azure), azure.scope)
    one_at_a_time = asyncio.Lock()

    async def headers() -> Mapping[str, str]:
        async with one_at_a_time:
            try:
                # In a thread: the Azure CLI is a program, and a slow one.
                token = await asyncio.to_thread(token_of)
            except AzureError as error:
                said = " ".join(str(error).split())[:300]
                raise ModelSetupError(
                    f"{section}: signing in to Azure by {azure.auth} failed: {said}",
                    hint=_HINTS[azure.auth],
                ) from error
        return {"Authorization": f"Bearer {token}"}

    return headers


def _credential(azure: Azure) -> AzureCliCredential | ManagedIdentityCredential:
    if azure.auth == "azure_cli":
        return AzureCliCredential()
    return ManagedIdentityCredential(client_id=azure.client_id)
