"""Messages and tools in the words of OpenAI's chat protocol."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from skillopt_ci.config.models import Azure, ModelRole
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.messages import Image, Message, ToolCall
from skillopt_ci.model.cache import base_url_of, reply_schema, token_limit
from skillopt_ci.model.keys import key_variable, redact
from skillopt_ci.model.retry import TransientFailure, retry_after_seconds
from skillopt_ci.model.types import ChatClient, ChatReply, ChatRequest, ModelRefusal, Role, Tool
from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.util import lasting_import

# The body of an answer, from bytes to the shape of its protocol.

_Shape = TypeVar("_Shape", bound=BaseModel)


def well_formed(text: str) -> str:
    """``text`` with lone surrogates, which no UTF-8 file or request can hold, replaced by ``?``."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


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
        raise TransientFailure(_not_json(body, error)) from error


def _not_json(body: bytes, error: ValueError) -> str:
    if body.lstrip()[:1] == b"<":
        return (
            "the response is a web page, not a completion: base_url must be the root of an API "
            "(most end in /v1)"
        )
    return f"the response is not JSON: {error}"


#: Of a call's state, what belongs to the call itself; the rest belongs to its message.
_OF_THE_CALL = ("extra_content",)


def as_sent(message: Message) -> dict[str, object]:
    """``message`` as the protocol wants it; a plain one has nothing but role and content."""
    sent: dict[str, object] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        states = [_state(call) for call in message.tool_calls]
        sent["tool_calls"] = [
            _tool_call(call) | {name: state[name] for name in _OF_THE_CALL if name in state}
            for call, state in zip(message.tool_calls, states, strict=True)
        ]
        sent |= {name: state[name] for state in states for name in state.keys() - {*_OF_THE_CALL}}
    if message.role == "tool":
        sent["tool_call_id"] = message.tool_call_id
    return sent


def data_url(image: Image) -> str:
    """The picture itself as an address."""
    return f"data:{image.media_type};base64,{image.data}"


def tool_as_sent(tool: Tool) -> dict[str, object]:
    """``tool`` as the protocol wants it."""
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _content(message: Message) -> object:
    text = well_formed(message.content)
    if not message.images:
        return text
    pictures = [
        {"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images
    ]
    return [{"type": "text", "text": text}, *pictures]


def _state(call: ToolCall) -> dict[str, object]:
    state = json.loads(call.state) if call.state else {}
    return state if isinstance(state, dict) else {}


def _tool_call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": well_formed(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


# An error that a server answered with, and what it means for the call and the run.

_PAYMENT_REQUIRED = 402
_TOO_LARGE = 413
_GONE = 410
#: Said by servers that answer 400 to a wrong key.
_BAD_KEY_WORDS = re.compile(
    r"api[ _]key (?:not valid|is invalid)|invalid api[ _]key", re.IGNORECASE
)
#: The model wrote something that the server could not read as a call or as JSON: it may not again.
_GARBLED = frozenset({"json_validate_failed", "tool_use_failed"})
_OVERLOADED = frozenset({429, 503, 529})
_UNPAID_WORDS = re.compile(r"credit balance is too low", re.IGNORECASE)
_PASSING = frozenset({408, 409, 425, 429})
_SERVER_FAULT = 500
_UNPAID = frozenset(
    {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "quota_exceeded"}
    | {"contract_spend_limit_reached", "enforced_spend_limit_reached"}
    | {"linked_organization_spend_limit_reached"}
)
_FILTERED = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})
_FILTERED_WORDS = re.compile(r"content management policy|input was flagged", re.IGNORECASE)
_TOO_LONG = frozenset(
    {"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"}
)
_TOO_LONG_WORDS = re.compile(
    r"context (?:length|window|size)|(?:prompt|input) is too long", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ServerError:
    """What a server said instead of an answer; ``retry_after`` is in seconds."""

    status: int
    message: str
    code: str = ""
    type: str = ""
    param: str = ""
    retry_after: float | None = None

    def is_any_of(self, codes: frozenset[str]) -> bool:
        """Whether the code, or the type that some servers use for it, is among ``codes``."""
        return self.code in codes or self.type in codes


def failure(error: ServerError, section: str, config: ModelRole) -> SkilloptError:
    """The exception that ``error`` amounts to; ``section`` (``model.target``) is for messages."""
    if (
        error.status == _PAYMENT_REQUIRED
        or error.is_any_of(_UNPAID)
        or _UNPAID_WORDS.search(error.message)
    ):
        return ModelSetupError(
            f"{section}: the account has no quota left at {base_url_of(config)}: {error.message}",
            hint="Check plan, billing and spending limit with the provider; waiting will not help.",
        )
    if error.status in _PASSING or error.status >= _SERVER_FAULT or error.is_any_of(_GARBLED):
        busy = error.status in _OVERLOADED
        return TransientFailure(_said(error), retry_after=error.retry_after, overloaded=busy)
    return _refusal(error) or _setup_error(error, section, config)


def _refusal(error: ServerError) -> ModelRefusal | None:
    if error.is_any_of(_FILTERED) or _FILTERED_WORDS.search(error.message):
        return ModelRefusal(f"The content filter refused the prompt: {error.message}")
    if (
        error.status == _TOO_LARGE
        or error.is_any_of(_TOO_LONG)
        or _TOO_LONG_WORDS.search(error.message)
    ):
        return ModelRefusal(f"The prompt is too long for the model: {error.message}")
    return None


def _setup_error(error: ServerError, section: str, config: ModelRole) -> ModelSetupError:
    base_url = base_url_of(config)
    if error.status in {401, 403} or _BAD_KEY_WORDS.search(error.message):
        return _key_refused(error, section, config)
    if error.status in {404, _GONE}:
        return ModelSetupError(
            f"{section}: there is no model {config.model!r} at {base_url} ({_said(error)})",
            hint="Check model's spelling and access, and that base_url ends before "
            "/chat/completions (most end in /v1).",
        )
    return ModelSetupError(
        f"{section}: {base_url} will not take requests for {config.model!r} ({_said(error)})",
        hint="Check the role's parameters, extra_body and base_url.",
    )


def _key_refused(error: ServerError, section: str, config: ModelRole) -> ModelSetupError:
    variable = key_variable(config)
    base_url = base_url_of(config)
    if config.azure is not None and config.azure.auth != "key":
        return ModelSetupError(
            f"{section}: {base_url} refused who signed in by {config.azure.auth} ({_said(error)})",
            hint="Give that account the role Cognitive Services OpenAI User on the resource.",
        )
    if variable is None:
        return ModelSetupError(
            f"{section}: {base_url} wants an API key ({_said(error)})",
            hint=f"Name the environment variable that holds it in {section}.api_key_env.",
        )
    return ModelSetupError(
        f"{section}: {base_url} refused the key in {variable} ({_said(error)})",
        hint=f"Put a valid key with access to {config.model!r} into {variable}; the variable is "
        f"chosen by {section}.api_key_env.",
    )


def _said(error: ServerError) -> str:
    return f"status {error.status}: {error.message}" if error.message else f"status {error.status}"


# What a server was found to accept, and the settings of a call in those terms.

_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")
_OPTIONAL = ("temperature", "reasoning_effort", "response_format")
_COMPLAINT = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|deprecated|may only be set"
    r"|not (?:permitted|allowed|available)|extra_forbidden",
    re.IGNORECASE,
)

#: By setting, the words in which servers of a protocol complain of it.
Words = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server wants the token limit called, and which settings it will not have."""

    limit_field: str
    renamed: bool = False
    dropped: frozenset[str] = frozenset()

    def without(self, setting: str) -> "Dialect | None":
        """The dialect for a server that refused ``setting``; None if nothing is left to try."""
        if setting in _OPTIONAL:
            return replace(self, dropped=self.dropped | {setting})
        if setting != self.limit_field:
            return self
        if self.renamed:
            return None
        other = next(name for name in _LIMIT_FIELDS if name != setting)
        return replace(self, limit_field=other, renamed=True)


def dialect_of(config: ModelRole) -> Dialect:
    """The dialect that a role begins with."""
    return Dialect(config.token_limit_field or config.preset.limit_field)


def settings_of(config: ModelRole, request: ChatRequest, dialect: Dialect) -> dict[str, object]:
    """The settings of a call under OpenAI's names: only those that are set and accepted.

    The value of ``response_format`` is the :class:`~skillopt_ci.model.types.ReplySchema`.
    """
    wanted = {
        dialect.limit_field: token_limit(config, request),
        "temperature": config.temperature,
        "reasoning_effort": config.reasoning_effort,
        "response_format": reply_schema(config, request),
    }
    return {
        name: value
        for name, value in wanted.items()
        if value is not None and name not in dialect.dropped
    }


def refused_setting(error: ServerError, sent: Collection[str], words: Words) -> str | None:
    """The setting among ``sent`` that the server says it does not support, if that is it.

    ``words`` has the settings that can be done without. A schema that is not understood counts,
    whatever is wrong with it.
    """
    if error.status not in {400, 422}:
        return None
    complains = bool(_COMPLAINT.search(f"{error.code} {error.message}"))
    named = [
        name
        for name, spoken in words.items()
        if name in sent and (complains or name == "response_format") and _names(error, spoken)
    ]
    return next((name for name in named if error.param in words[name]), next(iter(named), None))


def _names(error: ServerError, spoken: tuple[str, ...]) -> bool:
    return error.param in spoken or any(
        re.search(rf"\b{re.escape(word)}s?\b", error.message, re.IGNORECASE) for word in spoken
    )


# What a role's provider cannot do at all, said before it is asked.


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


# A server as a model, whatever protocol it speaks: one try per call.


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
    support is left out (or the token limit renamed) from then on, and ``observe`` is told.
    """

    def __init__(
        self, section: str, config: ModelRole, wire: Wire, observe: Observer = silent
    ) -> None:
        self._section = section
        self._config = config
        self._wire = wire
        self._observe = observe
        self._dialect = dialect_of(config)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``.

        Raises :class:`~skillopt_ci.model.retry.TransientFailure` for what may pass, and what
        :meth:`~skillopt_ci.model.types.ChatClient.complete` raises.
        """
        require_abilities(self._section, self._config, request)
        while True:
            settings = settings_of(self._config, request, self._dialect)
            came = await self._wire.send(self._wire.body(self._config, request, settings))
            answer = self._read(came, request)
            if isinstance(answer, ChatReply):
                return answer
            refused = refused_setting(answer, settings, self._wire.words)
            if refused is None or not self._learned_to_avoid(refused):
                raise failure(answer, self._section, self._config)

    def _read(self, came: bytes | ServerError, request: ChatRequest) -> ChatReply | ServerError:
        if isinstance(came, ServerError):
            return came
        return self._wire.read(came, request, self._config)

    def _learned_to_avoid(self, setting: str) -> bool:
        dialect = self._dialect.without(setting)
        if dialect is None:
            return False
        if dialect != self._dialect:
            self._dialect = dialect
            remedy = "left out" if setting in dialect.dropped else f"sent as {dialect.limit_field}"
            refusal = f"{self._config.model} does not support {setting}"
            self._observe(
                Note(f"{self._section}: {refusal}; it is {remedy} from now on.", level="warning")
            )
        return True


# One call by a provider's own client library, its failures in our terms.

LONGEST_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class SdkErrors:
    """A library's exceptions: a status that is no success, and no connection."""

    status: type[Exception]
    connection: type[Exception]


async def called(
    call: Callable[[], Awaitable[bytes]],
    errors: SdkErrors,
    timeout: float,
    secrets: Iterable[str],
    where: str,
) -> bytes | ServerError:
    """The body of the answer to ``call`` from ``where``, or its error, without ``secrets``.

    Raises :class:`TransientFailure` if there is no answer within ``timeout`` seconds, or no
    connection. The library is to know no timeout of its own: to it, whoever hangs up was too slow.
    """
    try:
        async with asyncio.timeout(timeout):
            return await call()
    except errors.status as error:
        return _server_error(error, tuple(secrets))
    except TimeoutError as error:
        raise TransientFailure(f"no answer within {timeout:g} s") from error
    except errors.connection as error:
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
        message=redact(" ".join(str(message).split()), secrets)[:LONGEST_MESSAGE],
        code=str(fields.get("code") or _cause(fields.get("details"))),
        type=str(fields.get("type") or ""),
        param=str(fields.get("param") or ""),
        retry_after=retry_after_seconds(error.response.headers, datetime.now(UTC)),
    )


def _cause(details: object) -> str:
    """Anthropic's stable name for what went wrong."""
    return str(details.get("error_code") or "") if isinstance(details, Mapping) else ""


# Opening the clients of roles that a server answers, with what they share and what they need.

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
        from skillopt_ci.model.openai_provider import connection_pool, openai_client

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
        from skillopt_ci.model import anthropic_provider as anthropic_client
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
