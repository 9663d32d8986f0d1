"""Anthropic's Messages API by the official client.

Importing this module imports ``anthropic``, which is an extra: only when a role needs it.
"""

from typing import Any

import anthropic

from skillopt_ci.config.models import ModelRole
from skillopt_ci.model.anthropic_body import WORDS, anthropic_body
from skillopt_ci.model.anthropic_reply import read_message
from skillopt_ci.model.call_key import base_url_of
from skillopt_ci.model.sdk_call import SdkErrors, called
from skillopt_ci.model.server_client import ServerClient, Wire
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.progress import Observer, silent

_ERRORS = SdkErrors(anthropic.APIStatusError, anthropic.APIConnectionError)


def connection_pool(size: int) -> anthropic.DefaultAsyncHttpxClient:
    """An HTTP client with at most ``size`` connections, for all roles; the caller closes it."""
    limits = type(anthropic.DEFAULT_CONNECTION_LIMITS)(
        max_connections=size, max_keepalive_connections=size
    )
    return anthropic.DefaultAsyncHttpxClient(limits=limits)


def anthropic_client(
    section: str,
    config: ModelRole,
    key: str,
    pool: anthropic.DefaultAsyncHttpxClient,
    observe: Observer = silent,
) -> ServerClient:
    """A client for a role; ``section`` (``model.target``) names it in messages."""
    sdk = anthropic.AsyncAnthropic(
        api_key=key,
        base_url=base_url_of(config),
        http_client=pool,
        max_retries=0,
        timeout=None,  # `called` has one
    )

    async def send(body: dict[str, Any]) -> bytes | ServerError:
        async def speak() -> bytes:
            answer = await sdk.messages.with_raw_response.create(
                model=body["model"],
                max_tokens=body["max_tokens"],
                messages=body["messages"],
                extra_body=body,
            )
            return await answer.read()

        return await called(speak, _ERRORS, config.timeout, [key], base_url_of(config))

    wire = Wire(anthropic_body, read_message, WORDS, send)
    return ServerClient(section, config, wire, observe)
