"""A server as a model, whatever protocol it speaks: one try per call."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, Field, ValidationError

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import ToolCall
from skillopt_ci.model.call_key import reply_schema, token_limit
from skillopt_ci.model.keys import redact
from skillopt_ci.model.retry import TransientFailure, retry_after_seconds
from skillopt_ci.model.server_errors import ServerError, Words
from skillopt_ci.model.types import ChatReply, ChatRequest, Usage, estimated_usage
from skillopt_ci.progress import Note, Observer, silent

_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")
_OPTIONAL = ("temperature", "reasoning_effort", "response_format")
_LONGEST_MESSAGE = 500
#: Turns of the event loop in which a request that is being made gets to its socket.
_TURNS = 2

_Shape = TypeVar("_Shape", bound=BaseModel)


def well_formed(text: str) -> str:
    """``text`` with lone surrogates, which no UTF-8 file or request can hold, replaced by ``?``."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def state_of(call: ToolCall) -> Iterator[dict[str, object]]:
    """The items that a provider wants back before ``call``."""
    items = json.loads(call.state) if call.state else []
    return (item for item in items if isinstance(item, dict))


def parsed(shape: type[_Shape], body: bytes, name: str) -> _Shape:
    """``body`` as ``shape``, which is called ``name`` in messages.

    Raises :class:`TransientFailure` for what is cut off, not JSON or of another shape.
    """
    try:
        # By way of text, because pydantic refuses the lone surrogates of a text cut in an escape.
        document = well_formed(json.dumps(json.loads(body), ensure_ascii=False))
        return shape.model_validate_json(document)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise TransientFailure(f"the response is no {name}: {detail}") from error
    except ValueError as error:
        page = "a web page, not a completion: base_url must be the root of an API (most end in /v1)"
        found = page if body.lstrip()[:1] == b"<" else f"not JSON: {error}"
        raise TransientFailure(f"the response is {found}") from error


def _any_of(*names: str) -> AliasChoices:
    """The first of ``names`` that a server sends; a dot leads into a mapping."""
    return AliasChoices(*(AliasPath(*name.split(".")) for name in names))


class ReportedUsage(BaseModel):
    """The usage that a server reports, under any protocol's names."""

    prompt_tokens: int | None = Field(
        None, validation_alias=_any_of("prompt_tokens", "input_tokens")
    )
    completion_tokens: int | None = Field(
        None, validation_alias=_any_of("completion_tokens", "output_tokens")
    )
    cached_tokens: int | None = Field(
        None,
        validation_alias=_any_of(
            "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"
        ),
    )
    prompt_cache_hit_tokens: int | None = None
    cache_write_tokens: int | None = Field(
        None, validation_alias=_any_of("input_tokens_details.cache_write_tokens")
    )
    reasoning_tokens: int | None = Field(
        None,
        validation_alias=_any_of(
            "completion_tokens_details.reasoning_tokens",
            "output_tokens_details.reasoning_tokens",
            "output_tokens_details.thinking_tokens",
        ),
    )
    cost: float | None = None
    # Anthropic counts these beside the prompt's tokens.
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


def usage_of(reported: ReportedUsage | None, request: ChatRequest, text: str) -> Usage:
    """The usage of one call; estimated from its texts where the server reports none."""
    if reported is None or reported.completion_tokens is None:
        return estimated_usage(request, text)
    read, written = reported.cache_read_input_tokens or 0, reported.cache_creation_input_tokens or 0
    prompt = (reported.prompt_tokens or 0) + read + written
    if not prompt:
        return estimated_usage(request, text)
    return Usage(
        calls=1,
        prompt_tokens=prompt,
        completion_tokens=reported.completion_tokens,
        cached_tokens=reported.cached_tokens or reported.prompt_cache_hit_tokens or read,
        cache_write_tokens=reported.cache_write_tokens or written,
        reasoning_tokens=reported.reasoning_tokens or 0,
        cost_usd=reported.cost if reported.cost and reported.cost > 0 else None,
    )


def require_abilities(section: str, config: ModelRole, request: ChatRequest) -> None:
    """Raise :class:`ModelSetupError` for pictures or tools that the provider knows nothing of.

    ``section`` (``model.target``) names the role in the message.
    """
    preset = config.preset
    if not preset.images and any(message.images for message in request.messages):
        raise ModelSetupError(
            f"{section}: {preset.title} takes no pictures, and the task has some",
            hint="Choose another provider for this role, or leave the pictures out.",
        )
    if not preset.tools and request.tools:
        raise ModelSetupError(
            f"{section}: {preset.title} calls no tools, and the task needs them",
            hint="Choose a provider that serves a model over HTTP for this role.",
        )


class RequestPacer:
    """Lets requests that are made at once leave one after the other.

    Without it the loop takes them through each stage side by side: the first leaves when the last
    is ready. The server idles meanwhile, and their answers come all at once as well, so that the
    next requests are late again. Each caller goes on alone for some ``turns`` of the event loop,
    to which a pacer belongs.
    """

    def __init__(self, turns: int = _TURNS) -> None:
        self._turns = turns
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        """Return when it is the caller's turn."""
        await self._lock.acquire()
        self._leave(self._turns)

    def _leave(self, turns: int) -> None:
        # Counted in turns and not until the request is sent: a slow connection holds up nobody.
        if turns:
            asyncio.get_running_loop().call_soon(self._leave, turns - 1)
        else:
            self._lock.release()


@dataclass(frozen=True, slots=True)
class ServerQuirks:
    """How a server wants the token limit called, and which settings it will not have."""

    limit_field: str
    renamed: bool = False
    dropped: frozenset[str] = frozenset()

    @classmethod
    def expected(cls, config: ModelRole) -> "ServerQuirks":
        """Those that a role begins with."""
        return cls(config.token_limit_field or config.preset.limit_field)

    def without(self, setting: str) -> "ServerQuirks | None":
        """The quirks of a server that refused ``setting``; None if nothing is left to try."""
        if setting in _OPTIONAL:
            return replace(self, dropped=self.dropped | {setting})
        if setting != self.limit_field:
            return self
        if self.renamed:
            return None
        other = next(name for name in _LIMIT_FIELDS if name != setting)
        return replace(self, limit_field=other, renamed=True)

    def settings(self, config: ModelRole, request: ChatRequest) -> dict[str, object]:
        """The settings of a call under OpenAI's names: only those that are set and accepted.

        The value of ``response_format`` is the :class:`~skillopt_ci.model.types.ReplySchema`.
        """
        wanted = {
            self.limit_field: token_limit(config, request),
            "temperature": config.temperature,
            "reasoning_effort": config.reasoning_effort,
            "response_format": reply_schema(config, request),
        }
        return {
            name: value
            for name, value in wanted.items()
            if value is not None and name not in self.dropped
        }


@dataclass(frozen=True, slots=True)
class Wire:
    """A protocol: how a request is put, how an answer is read, and how one becomes the other.

    ``send`` returns the body of an answer or the server's error; a failure of the connection raises
    :class:`~skillopt_ci.model.retry.TransientFailure`. ``words`` has the settings that the
    protocol can do without, and what servers call them.
    """

    body: Callable[[ModelRole, ChatRequest, Mapping[str, object]], dict[str, object]]
    read: Callable[[bytes, ChatRequest, ModelRole], ChatReply | ServerError]
    words: Words
    send: Callable[[dict[str, object]], Awaitable[bytes | ServerError]]


class ServerClient:
    """Answers a role's requests from a server.

    ``section`` (``model.target``) names the role in messages. A setting that the server does not
    support is left out (or the token limit renamed) from then on, and ``observe`` is told. Clients
    that share a ``pacer`` send one request after the other.
    """

    def __init__(
        self,
        section: str,
        config: ModelRole,
        wire: Wire,
        observe: Observer = silent,
        pacer: RequestPacer | None = None,
    ) -> None:
        self._section = section
        self._config = config
        self._wire = wire
        self._observe = observe
        self._pacer = pacer or RequestPacer()
        self._quirks = ServerQuirks.expected(config)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``.

        Raises :class:`~skillopt_ci.model.retry.TransientFailure` for what may pass, and what
        :meth:`~skillopt_ci.model.types.ChatClient.complete` raises.
        """
        await self._pacer.turn()
        require_abilities(self._section, self._config, request)
        while True:
            settings = self._quirks.settings(self._config, request)
            answer: bytes | ChatReply | ServerError
            answer = await self._wire.send(self._wire.body(self._config, request, settings))
            if isinstance(answer, bytes):
                answer = self._wire.read(answer, request, self._config)
            if isinstance(answer, ChatReply):
                return answer
            refused = answer.refused_setting(settings, self._wire.words)
            if refused is None or not self._learned_to_avoid(refused):
                raise answer.exception(self._section, self._config)

    def _learned_to_avoid(self, setting: str) -> bool:
        quirks = self._quirks.without(setting)
        if quirks is None:
            return False
        if quirks != self._quirks:
            self._quirks = quirks
            remedy = "left out" if setting in quirks.dropped else f"sent as {quirks.limit_field}"
            refusal = f"{self._config.model} does not support {setting}"
            self._observe(
                Note(f"{self._section}: {refusal}; it is {remedy} from now on.", level="warning")
            )
        return True


async def called(
    call: Callable[[], Awaitable[bytes]],
    sdk: ModuleType,
    timeout: float,
    secrets: Iterable[str],
    where: str,
) -> bytes | ServerError:
    """The body of the answer to ``call`` from ``where``, or its error, without ``secrets``.

    ``sdk`` is the library that makes the call; it is to know no timeout of its own: to it, whoever
    hangs up was too slow. Raises :class:`TransientFailure` if there is no answer within ``timeout``
    seconds, or no connection.
    """
    try:
        async with asyncio.timeout(timeout):
            return await call()
    except sdk.APIStatusError as error:
        return _server_error(error, tuple(secrets))
    except TimeoutError as error:
        raise TransientFailure(f"no answer within {timeout:g} s") from error
    except sdk.APIConnectionError as error:
        found = redact(_reason(error), secrets)
        raise TransientFailure(f"the connection failed: {found} ({where})") from error


def _reason(error: BaseException) -> str:
    """What lies behind the library's own words, as far as it says anything."""
    cause = error.__cause__
    return str(error) if cause is None else str(cause) or _reason(cause)


def _server_error(error: Any, secrets: Iterable[str]) -> ServerError:
    body = error.body
    # Google puts its errors into a list of one, Anthropic's library leaves the envelope on.
    found = body[0] if isinstance(body, list) and body else body
    fields = found if isinstance(found, Mapping) else {"message": found}
    inner = fields.get("error")
    fields = inner if isinstance(inner, Mapping) else fields
    message = fields.get("message") or (json.dumps(body, default=str) if body else "")
    return ServerError(
        status=error.status_code,
        message=redact(" ".join(str(message).split()), secrets)[:_LONGEST_MESSAGE],
        code=str(fields.get("code") or _cause(fields.get("details"))),
        type=str(fields.get("type") or ""),
        param=str(fields.get("param") or ""),
        retry_after=retry_after_seconds(error.response.headers, datetime.now(UTC)),
    )


def _cause(details: object) -> str:
    """Anthropic's stable name for what went wrong."""
    return str(details.get("error_code") or "") if isinstance(details, Mapping) else ""
