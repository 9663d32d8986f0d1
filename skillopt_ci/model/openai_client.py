"""Chat completions over HTTP with the official client, one try per call.

Importing this module imports ``openai``, which is slow: it is imported only when a role needs it.
"""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import cast

import openai
from openai.types.chat import ChatCompletionMessageParam

from skillopt_ci.model.call_key import base_url_of
from skillopt_ci.model.client import ChatReply, ChatRequest
from skillopt_ci.model.keys import redact
from skillopt_ci.model.openai_dialect import Dialect, parameters, refused_parameter
from skillopt_ci.model.openai_message import as_sent
from skillopt_ci.model.openai_reply import read_reply
from skillopt_ci.model.server_error import ServerError, failure
from skillopt_ci.model.transient import TransientFailure, retry_after_seconds
from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.settings.model import ModelRole

LONGEST_MESSAGE = 500


def connection_pool(size: int) -> openai.DefaultAsyncHttpxClient:
    """An HTTP client with at most ``size`` connections, for all roles; the caller closes it."""
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
        max_connections=size, max_keepalive_connections=size
    )
    return openai.DefaultAsyncHttpxClient(limits=limits)


class OpenAIClient:
    """Answers a role's requests from an OpenAI-compatible server.

    ``section`` (``model.target``) names the role in messages, ``key`` is its API key. A parameter
    that the server does not support is left out (or the token limit renamed) from then on, and
    ``observe`` is told. Failures that may pass raise :class:`TransientFailure`.
    """

    def __init__(
        self,
        section: str,
        config: ModelRole,
        key: str,
        pool: openai.DefaultAsyncHttpxClient,
        observe: Observer = silent,
    ) -> None:
        self._section = section
        self._config = config
        self._key = key
        self._observe = observe
        self._dialect = Dialect(limit_field=config.token_limit_field)
        self._sdk = openai.AsyncOpenAI(
            api_key=key,
            base_url=base_url_of(config),
            http_client=pool,
            max_retries=0,
            timeout=config.timeout,
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``."""
        while True:
            sent = parameters(self._config, request, self._dialect)
            answer = await self._ask(request, sent)
            if isinstance(answer, ChatReply):
                return answer
            refused = refused_parameter(answer, sent)
            if refused is None or not self._learned_to_avoid(refused):
                raise failure(answer, self._section, self._config)

    async def _ask(self, request: ChatRequest, sent: dict[str, object]) -> ChatReply | ServerError:
        try:
            async with asyncio.timeout(self._config.timeout):
                response = await self._sdk.chat.completions.with_raw_response.create(
                    model=self._config.model,
                    messages=cast(
                        "list[ChatCompletionMessageParam]", list(map(as_sent, request.messages))
                    ),
                    extra_body=sent,
                )
        except openai.APIStatusError as error:
            return self._server_error(error)
        except (TimeoutError, openai.APITimeoutError) as error:
            raise TransientFailure(f"no answer within {self._config.timeout:g} s") from error
        except openai.APIConnectionError as error:
            cause = redact(str(error.__cause__ or error), [self._key])
            raise TransientFailure(f"the connection failed: {cause}") from error
        return read_reply(response.content, request, self._config)

    def _learned_to_avoid(self, parameter: str) -> bool:
        dialect = self._dialect.without(parameter)
        if dialect is None:
            return False
        if dialect != self._dialect:
            self._dialect = dialect
            remedy = (
                "left out" if parameter in dialect.dropped else f"sent as {dialect.limit_field}"
            )
            refusal = f"{self._config.model} does not support {parameter}"
            self._observe(
                Note(f"{self._section}: {refusal}; it is {remedy} from now on.", level="warning")
            )
        return True

    def _server_error(self, error: openai.APIStatusError) -> ServerError:
        body = error.body
        fields = body if isinstance(body, Mapping) else {"message": body}
        message = fields.get("message") or (json.dumps(body, default=str) if body else "")
        return ServerError(
            status=error.status_code,
            message=redact(" ".join(str(message).split()), [self._key])[:LONGEST_MESSAGE],
            code=str(fields.get("code") or ""),
            type=str(fields.get("type") or ""),
            param=str(fields.get("param") or ""),
            retry_after=retry_after_seconds(error.response.headers, datetime.now(UTC)),
        )
