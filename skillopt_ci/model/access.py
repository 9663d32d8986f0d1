"""How a role reaches its server: base URL, connections, key, and how the key stays hidden."""

import asyncio
import difflib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from skillopt_ci.config.models import PLACEHOLDER, Azure, ModelRole, Models
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.util import lasting_import, located, read_text, stray_character

NO_KEY = "none"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|_PASS$|CREDENTIAL", re.IGNORECASE)
#: OpenAI models that only the Responses API serves.
_RESPONSES_ONLY = re.compile(r"(gpt-5(\.\d+)?-codex|codex-mini|(gpt-5(\.\d+)?|o1|o3)-pro)(-.*)?")
_V1 = "/openai/v1"
#: A longer response is not read to its end: it may have none.
_MOST_BYTES = 20_000_000
#: Header names that suggest a secret value.
_SECRET_HEADER = re.compile(r"KEY|TOKEN|SECRET|AUTH|COOKIE", re.IGNORECASE)


def base_url_of(config: ModelRole) -> str:
    """The root URL of the role's API; for older Azure APIs, the deployment's URL."""
    preset = config.preset
    url = config.base_url or preset.regions.get(config.region or "") or preset.base_url
    url = url.rstrip("/")
    if preset.protocol == "messages":
        return url.removesuffix("/v1")  # Anthropic's client adds it
    if config.provider != "azure":
        return url
    if config.azure is None or config.azure.api_version is None:
        return url if url.endswith("/v1") else f"{url}{_V1}"
    deployment = "" if uses_responses(config) else f"/deployments/{quote(config.model, safe='')}"
    return f"{url.removesuffix(_V1)}/openai{deployment}"


def uses_responses(config: ModelRole) -> bool:
    if config.api is not None:
        return config.api == "responses"
    return config.provider in ("openai", "azure") and bool(_RESPONSES_ONLY.fullmatch(config.model))


def required_variable(config: ModelRole) -> str | None:
    """The environment variable that every call needs, or None."""
    if config.api_key_file or (config.preset.key_optional and not config.api_key_env):
        return None
    return config.key_variable


def required_variables(roles: Mapping[str, ModelRole]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(required_variable, roles.values()))))


def api_key(
    section: str, config: ModelRole, environ: Mapping[str, str], root: Path = Path()
) -> str:
    """The role's key. Raises ModelSetupError, which names ``section`` (``model.target``)."""
    variable = config.key_variable
    if config.api_key_file is not None:
        section, source = f"{section}.api_key_file", config.api_key_file
        key = _key_in_file(section, source, environ, root)
    elif variable is None or not (environ.get(variable, "").strip() or required_variable(config)):
        return NO_KEY
    else:
        key = _value_of(variable, environ, f"{section} needs an API key in", "api_key_env: %s")
        source = f"the key in {variable}"
    if stray := stray_character(key):
        raise ModelSetupError(
            f"{section}: {source} holds {stray}",
            hint="Copy the key again: it has only visible ASCII characters.",
        )
    return key


def headers_of(section: str, config: ModelRole, environ: Mapping[str, str]) -> dict[str, str]:
    """The role's own headers with their variables filled in. Raises ModelSetupError."""

    def value_of(found: re.Match[str]) -> str:
        value = _value_of(found[1], environ, f"{section}.headers needs", "${%s}")
        if stray := stray_character(value, allowed=" "):
            raise ModelSetupError(
                f"{section}.headers: the value of {found[1]} holds {stray}",
                hint="Only printable ASCII characters can be sent.",
            )
        return value

    return {name: PLACEHOLDER.sub(value_of, text) for name, text in config.headers.items()}


def resolved_key_values(
    models: Models, environ: Mapping[str, str], root: Path = Path()
) -> tuple[str, ...]:
    """All keys and secrets of the roles that are set, for redaction."""
    found: list[str] = []
    for role in models.roles.values():
        with suppress(ModelSetupError):
            found.append(api_key("", role, environ, root))
        found += secret_values(role.variables, environ)
        for header, text in role.headers.items():  # secret if either name says so
            names = PLACEHOLDER.findall(text)
            hidden = names if _SECRET_HEADER.search(header) else filter(_SECRET_NAME.search, names)
            found += (environ.get(name, "").strip() for name in hidden)
    return tuple(value for value in dict.fromkeys(found) if value not in ("", NO_KEY))


def secret_values(names: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    values = (environ.get(name, "").strip() for name in names if _SECRET_NAME.search(name))
    return tuple(filter(None, values))


def redact(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _key_in_file(section: str, name: str, environ: Mapping[str, str], root: Path) -> str:
    try:
        value = read_text(located(name, root, environ)).strip()
    except OSError as error:
        raise ModelSetupError(
            f"{section}: {name} cannot be read: {error.strerror}",
            hint="It must hold the key and nothing else; relative paths start at the folder of "
            "the configuration.",
        ) from error
    if not value:
        raise ModelSetupError(
            f"{section}: {name} is empty", hint="It must hold the key, nothing else."
        )
    return value


def _value_of(variable: str, environ: Mapping[str, str], needs: str, setting: str) -> str:
    if value := environ.get(variable, "").strip():
        return value
    present = [name for name in environ if name != variable and environ[name]]
    hint = (
        f"Export {variable}; in GitHub Actions add a secret of that name and pass it on in "
        "`keys:` or `env:` (a missing one reads as empty, as all do for pull requests from forks)."
    )
    if similar := difflib.get_close_matches(variable, present, n=1, cutoff=0.8):
        hint = f"{similar[0]} is set: did you mean `{setting % similar[0]}`?"
    state = "empty" if variable in environ else "not set"
    raise ModelSetupError(
        f"{needs} the environment variable {variable}, which is {state}", hint=hint
    )


# Microsoft Entra tokens, for roles that sign in to Azure instead of sending a key.

_SIGN_IN_HINTS = {
    "azure_cli": "Run `az login` first (in GitHub Actions the step azure/login).",
    "managed_identity": "Give the machine an identity with access to the resource; where it has "
    "several, name one in azure.client_id.",
}


def signed_in(section: str, azure: Azure) -> Callable[[], Awaitable[Mapping[str, str]]]:
    """A function that returns the token header, renewed as needed; it raises ModelSetupError."""
    from azure.core.exceptions import AzureError  # noqa: PLC0415
    from azure.identity import (  # noqa: PLC0415 - an extra
        AzureCliCredential,
        ManagedIdentityCredential,
        get_bearer_token_provider,
    )

    identity = (
        AzureCliCredential()
        if azure.auth == "azure_cli"
        else ManagedIdentityCredential(client_id=azure.client_id)
    )
    token_of, one_at_a_time = get_bearer_token_provider(identity, azure.scope), asyncio.Lock()

    async def headers() -> Mapping[str, str]:
        async with one_at_a_time:
            try:
                # In a thread: this may run the Azure CLI, which is slow.
                token = await asyncio.to_thread(token_of)
            except AzureError as error:
                said = " ".join(str(error).split())[:300]
                raise ModelSetupError(
                    f"{section}: signing in to Azure by {azure.auth} failed: {said}",
                    hint=_SIGN_IN_HINTS[azure.auth],
                ) from error
        return {"Authorization": f"Bearer {token}"}

    return headers


def library_of(config: ModelRole) -> Any:
    """The official client library for the role's protocol; the import is slow."""
    return lasting_import("anthropic" if config.preset.protocol == "messages" else "openai")


def connection_pool(config: ModelRole, size: int) -> Any:
    """Raises ModelSetupError for a proxy or certificates in the environment that are none."""
    library = library_of(config)
    limits = type(library.DEFAULT_CONNECTION_LIMITS)
    http = limits.__module__.partition(".")[0]
    try:
        return library.DefaultAioHttpClient(
            limits=limits(max_connections=size, max_keepalive_connections=size),
            verify=_trusted(http),
            event_hooks={"response": [_bound]},
            follow_redirects=False,  # keys in other headers than Authorization would go along
        )
    except OSError as error:
        raise ModelSetupError(
            f"The certificates that the environment names cannot be used: {error.strerror}",
            hint="Check SSL_CERT_FILE and SSL_CERT_DIR.",
        ) from error
    except (ValueError, import_module(http).InvalidURL) as error:
        raise ModelSetupError(  # without the address, which may hold a password
            "A proxy in the environment has no address that can be used",
            hint="Check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; expected http://host:port.",
        ) from error


async def _bound(response: Any) -> None:
    """Let a response be read up to its limit, after decompression."""
    whole = response.aiter_bytes

    async def bounded() -> AsyncIterator[bytes]:
        left = _MOST_BYTES
        async for part in whole():
            if (left := left - len(part)) < 0:
                raise TransientFailure(f"the response is longer than {_MOST_BYTES:,} bytes")
            yield part

    response.aiter_bytes = bounded


@cache
def _trusted(http: str) -> ssl.SSLContext:
    """Certificates that ``http`` trusts; it would load them per pool and proxy, 20 ms each."""
    context: ssl.SSLContext = import_module(http).create_ssl_context()
    return context
