"""OpenAI's two interfaces, and every server that speaks one of them, by the official client.

Importing this module imports ``openai``, which is slow: it is imported only when a role needs it.
"""

from collections.abc import Awaitable, Callable, Mapping

import openai

from skillopt_ci.config.models import ModelRole
from skillopt_ci.model import chat_body, responses_body
from skillopt_ci.model.call_key import base_url_of, uses_responses
from skillopt_ci.model.keys import NO_KEY
from skillopt_ci.model.openai_reply import read_reply
from skillopt_ci.model.responses_reply import read_response
from skillopt_ci.model.sdk_call import SdkErrors, called
from skillopt_ci.model.server_client import ServerClient, Wire
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.progress import Observer, silent

_ERRORS = SdkErrors(openai.APIStatusError, openai.APIConnectionError)


def connection_pool(size: int) -> openai.DefaultAioHttpClient:
    """An HTTP client with at most ``size`` connections, for all roles; the caller closes it."""
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
        max_connections=size, max_keepalive_connections=size
    )
    return openai.DefaultAioHttpClient(limits=limits)


def openai_client(
    section: str,
    config: ModelRole,
    key: str,
    pool: openai.DefaultAioHttpClient,
    headers: Callable[[], Awaitable[Mapping[str, str]]],
    observe: Observer = silent,
) -> ServerClient:
    """A client for a role; ``section`` (``model.target``) names it in messages.

    ``key`` is its API key; ``headers`` gives what else proves who we are, for each call.
    """
    # Spelt out and not by the library's own Azure client, which would ask the environment.
    older = config.azure.api_version if config.azure else None
    sdk = openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url_of(config),
        default_query={"api-version": older} if older else None,
        default_headers={"api-key": key} if older and key != NO_KEY else None,
        http_client=pool,
        max_retries=0,
        timeout=None,  # `called` has one
    )
    path = "/responses" if uses_responses(config) else "/chat/completions"

    async def send(body: dict[str, object]) -> bytes | ServerError:
        more = await headers()
        # Not by `sdk.chat.completions` and the like: they import all that OpenAI has, and go
        # through the body field by field, which takes longer than sending it.
        return await called(
            lambda: sdk.post(path, cast_to=bytes, body=body, options={"headers": more}),
            _ERRORS,
            config.timeout,
            [key],
            base_url_of(config),
        )

    if uses_responses(config):
        body, read, words = (
            responses_body.responses_body,
            read_response,
            responses_body.RESPONSES_WORDS,
        )
    else:
        body, read, words = chat_body.chat_body, read_reply, chat_body.CHAT_WORDS
    return ServerClient(section, config, Wire(body, read, words, send), observe)
