"""Calls to model servers under any protocol: one try per call, and the meaning of errors."""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.messages import Image, Message, ToolCall, well_formed
from skillopt_ci.model.access import NO_KEY, base_url_of, library_of, redact, signed_in
from skillopt_ci.model.retry import TransientFailure, retry_after_seconds, wait_in_words
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
    JsonObject,
    ModelRefusal,
    RequestTooLarge,
    Usage,
    estimated_usage,
    reply_schema,
    token_limit,
)
from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.util import lasting_import

#: Servers' names for the limit of output tokens.
_LIMITS = ("max_completion_tokens", "max_tokens")
LONGEST_MESSAGE = 500
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


def state_of(call: ToolCall) -> Iterator[dict[str, object]]:
    return (item for item in json.loads(call.state or "[]") if isinstance(item, dict))


def with_thoughts(
    calls: Iterable[ToolCall], thoughts: Iterable[JsonObject]
) -> tuple[ToolCall, ...]:
    """``calls``, the first with the preceding ``thoughts`` as its state; see :func:`state_of`."""
    items = [
        {"type": one.get("type"), **{k: v for k, v in one.items() if k not in ("type", "content")}}
        for one in thoughts
    ]
    found = distinct(calls)
    if items and found:
        found = (replace(found[0], state=json.dumps(items)), *found[1:])
    return found


def distinct(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """``calls`` with an id each: a result must name its call, but servers omit or repeat ids."""
    found: dict[str, ToolCall] = {}
    for number, call in enumerate(calls):
        identity = call.id
        if not identity or identity in found:
            identity = f"{identity or 'call'}_{number}"
        found[identity] = replace(call, id=identity)
    return tuple(found.values())


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def as_sent(message: Message) -> dict[str, object]:
    """``message`` in OpenAI's chat protocol."""
    text = well_formed(message.content)
    pictures = [
        {"type": "image_url", "image_url": {"url": data_url(one)}} for one in message.images
    ]
    content = [{"type": "text", "text": text}, *pictures] if pictures else text
    sent: dict[str, object] = {"role": message.role, "content": content}
    if message.tool_calls:
        of_message: dict[str, object] = {}
        calls = []
        for call in message.tool_calls:
            function = {"name": call.name, "arguments": well_formed(call.arguments)}
            told: dict[str, object] = {"id": call.id, "type": "function", "function": function}
            state = json.loads(call.state) if call.state else {}
            # `extra_content` belongs to the call, the rest of its state to the message.
            if isinstance(state, dict) and "extra_content" in state:
                told["extra_content"] = state.pop("extra_content")
            of_message |= state if isinstance(state, dict) else {}
            calls.append(told)
        sent |= {"tool_calls": calls, **of_message}
    if message.role == "tool":
        sent["tool_call_id"] = message.tool_call_id
    return sent


def sendable(message: Message, tools: Collection[str]) -> Message:
    """``message`` with JSON objects as arguments, and with names of tools that are well formed.

    Many servers reject a history without these, even their own. Names in ``tools`` stay.
    """

    def arguments(written: str) -> str:
        try:
            if isinstance(json.loads(written or "{}"), dict):
                return written
        except (ValueError, RecursionError):
            pass
        return json.dumps({"arguments": well_formed(written)})

    def name(written: str) -> str:
        return written if written in tools else _NOT_IN_NAMES.sub("_", written)[:64] or "unnamed"

    calls = tuple(
        replace(call, name=name(call.name), arguments=arguments(call.arguments))
        for call in message.tool_calls
    )
    return replace(message, tool_calls=calls) if calls else message


def limit_in(settings: Mapping[str, object]) -> object:
    return next((settings[name] for name in _LIMITS if name in settings), None)


def parsed(body: bytes) -> JsonObject:
    """The JSON object in ``body``. Raises :class:`TransientFailure` if there is none."""
    try:
        # A text that was cut within an escape ends with a lone surrogate.
        document = json.loads(well_formed(json.dumps(json.loads(body), ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        page = "a web page, not a completion: base_url must be the root of an API"
        found = page if body.lstrip()[:1] == b"<" else f"not JSON: {error}"
        raise TransientFailure(f"the response is {found}") from error
    if not isinstance(document, dict):
        raise TransientFailure("the response is no object")
    return JsonObject(document)


def no_answer(reply: ChatReply) -> TransientFailure:
    """The failure for a ``reply`` without text or tool calls, which OpenAI's protocols exclude.

    If its tokens were billed, it becomes the answer when retries run out.
    """
    answered = reply.usage.completion_tokens > 0 and not reply.usage.estimated
    return TransientFailure("the server sent no answer", reply=reply if answered else None)


def usage_of(told: JsonObject, request: ChatRequest, text: str) -> Usage:
    """The usage of one call in any protocol; estimated from the texts if none is reported."""
    asked = told.at("prompt_tokens_details") or told.at("input_tokens_details")
    said = told.at("completion_tokens_details") or told.at("output_tokens_details")
    read, written = map(told.number, ("cache_read_input_tokens", "cache_creation_input_tokens"))
    # Anthropic does not include these in the prompt's tokens; LiteLLM does, in `prompt_tokens`.
    prompt = told.number("prompt_tokens") or told.number("input_tokens") + read + written
    counts = map(told.money, ("completion_tokens", "output_tokens", "total_tokens"))
    if not prompt or all(count is None for count in counts):
        return estimated_usage(request.messages, text)
    said_tokens = told.number("completion_tokens", "output_tokens")
    # DeepSeek, and Moonshot and Together, say it beside the other counts.
    beside = told.number("prompt_cache_hit_tokens", "cached_tokens")
    cached = asked.number("cached_tokens") or beside or read
    cost = told.money("cost") or 0.0
    if told.get("is_byok") is True:  # OpenRouter's own share; the key's provider charges the rest
        cost += told.at("cost_details").money("upstream_inference_cost") or 0.0
    return Usage(
        calls=1,
        prompt_tokens=prompt,
        # Gemini and xAI count reasoning only in the total.
        completion_tokens=max(said_tokens, told.number("total_tokens") - prompt),
        cached_tokens=cached,
        cache_write_tokens=asked.number("cache_write_tokens") or written,
        reasoning_tokens=said.number("reasoning_tokens", "thinking_tokens"),
        cost_usd=cost or None,
    )


#: Messages of servers that answer 400 to a wrong key.
_BAD_KEY_WORDS = re.compile(r"(?i)api[ _]key (?:not valid|is invalid)|invalid api[ _]key")
#: The model's output was no call or JSON, or the account made too many calls.
_RETRIED = frozenset({"json_validate_failed", "tool_use_failed", "rate_limit_exceeded"})
_OVERLOADED = frozenset({429, 503, 529})
_PASSING = frozenset({408, 409, 425, 429})
_UNPAID = frozenset(
    {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "quota_exceeded"}
    | {"contract_spend_limit_reached", "enforced_spend_limit_reached"}
    | {"linked_organization_spend_limit_reached"}
)
_UNPAID_WORDS = re.compile(
    r"credit balance is too low|specified (?:\w+ )?API usage limits", re.IGNORECASE
)
_FILTERED = frozenset(
    {"content_filter", "content_policy_violation", "data_inspection_failed", "invalid_prompt"}
)
_FILTERED_WORDS = re.compile(
    r"content (?:management|filtering) policy|(?:input was|has been) flagged", re.IGNORECASE
)
_TOO_LONG = frozenset(
    {"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"}
)
_TOO_LONG_WORDS = re.compile(
    r"context (?:length|window|size|limit)|(?:prompt|input) is too long|maximum prompt length"
    r"|input token count\b.*\bexceeds|range of input length|exceeded model token limit"
    r"|`inputs` tokens \+ `max_new_tokens` must be",
    re.IGNORECASE,
)
#: One request is over OpenAI's or Groq's tokens per minute; the limit of the answer counts there.
_TOO_LARGE = "Request too large"
_TOO_MANY_WORDS = re.compile(
    r"max_\w*tokens\b.*(?:too large|not be greater|exceed|at most|fewer|less|maximum|range)\b"
)
_UNSUPPORTED_WORDS = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|deprecated|may only be set"
    r"|not (?:permitted|allowed|available)|extra_forbidden",
    re.IGNORECASE,
)

#: What OpenAI and Azure say of what only the newer interface does: a model, reasoning with tools.
_OTHER_INTERFACE = re.compile("v1/responses|chatCompletion operation does not work")
_END_OF_BASE_URL = ("/chat/completions (most end in /v1).", "/v1/messages.")

#: For each setting, the names that servers use for it in errors.
_SETTING_WORDS: Mapping[str, tuple[str, ...]] = {
    "max_completion_tokens": ("max_completion_tokens",),
    "max_tokens": ("max_tokens",),
    "temperature": ("temperature",),
    "reasoning_effort": (
        *("reasoning_effort", "reasoning.effort", "output_config.effort", "effort", "thinking"),
    ),
    "response_format": (
        *("response_format", "json_schema", "structured output", "json mode", "text.format"),
        *("output_config.format", "output_format"),
    ),
}


@dataclass(frozen=True, slots=True)
class ServerError:
    """A server's error; ``retry_after`` is in seconds."""

    status: int
    message: str
    code: str = ""
    type: str = ""
    param: str = ""
    retry_after: float | None = None

    def _is(self, codes: frozenset[str], words: re.Pattern[str] | None = None) -> bool:
        said = words is not None and words.search(self.message) is not None
        return said or self.code in codes or self.type in codes

    @property
    def too_long(self) -> bool:
        return self.status == 413 or self._is(_TOO_LONG, _TOO_LONG_WORDS)  # noqa: PLR2004

    def exception(self, section: str, config: ModelRole) -> SkilloptError:
        where, message = base_url_of(config), self.message
        said = f"status {self.status}: {message}" if message else f"status {self.status}"
        if self.status == 402 or self._is(_UNPAID, _UNPAID_WORDS):  # noqa: PLR2004
            return ModelSetupError(
                f"{section}: the account has no quota left at {where}: {message}",
                hint="Check plan, billing and spending limit with the provider; "
                "waiting will not help.",
            )
        if _TOO_LARGE in message:
            return RequestTooLarge(
                f"{section}: a request is over the limit of the account at {where}: {message}",
                hint=f"Raise that limit, or lower {section}.max_output_tokens, "
                "gradient.max_minibatch_chars or optimizer.slow_update_samples.",
            )
        if self.status in _PASSING or self.status >= 500 or self._is(_RETRIED):  # noqa: PLR2004
            busy = self.status in _OVERLOADED
            return TransientFailure(said, retry_after=self.retry_after, overloaded=busy)
        if self._is(_FILTERED, _FILTERED_WORDS):
            return ModelRefusal(f"The content filter refused the prompt: {message}")
        if self.too_long:
            return ModelRefusal(f"The prompt is too long for the model: {message}")
        # The page of a firewall in front of the server says nothing of the key.
        refused = {401} if message.startswith(("<", "error code: ")) else {401, 403}
        if self.status in refused or _BAD_KEY_WORDS.search(message):
            return _key_refused(said, section, config)
        unserved = f"{section}: {where} does not serve {config.model!r} ({said})"
        if _OTHER_INTERFACE.search(message):
            return ModelSetupError(unserved, hint=f"Set {section}.api to responses.")
        if self.status in {404, 410}:
            return ModelSetupError(
                unserved,
                hint="Check model's spelling and access, and that base_url ends before "
                + _END_OF_BASE_URL[config.preset.protocol == "messages"],
            )
        return ModelSetupError(
            f"{section}: {where} rejects requests for {config.model!r} ({said})",
            hint="Check the role's parameters, extra_body and base_url; a firewall sends a page.",
        )

    def refused_setting(self, sent: Collection[str]) -> str | None:
        """The unsupported setting in ``sent``, or None. Any complaint about a schema counts."""
        if self.status not in {400, 422} or _OTHER_INTERFACE.search(self.message):
            return None
        complains = bool(_UNSUPPORTED_WORDS.search(f"{self.code} {self.message}"))
        possible = {
            name: spoken
            for name, spoken in _SETTING_WORDS.items()
            if name in sent and (complains or name == "response_format")
        }
        by_param = [name for name, spoken in possible.items() if self.param in spoken]
        by_words = [
            name
            for name, spoken in possible.items()
            if re.search(
                rf"\b(?:{'|'.join(map(re.escape, spoken))})s?\b", self.message, re.IGNORECASE
            )
        ]
        return next(iter(by_param + by_words), None)


def _key_refused(said: str, section: str, config: ModelRole) -> ModelSetupError:
    variable, where = config.key_variable, base_url_of(config)
    if config.azure is not None and config.azure.auth != "key":
        return ModelSetupError(
            f"{section}: {where} refused the account of {config.azure.auth} ({said})",
            hint="Give that account the role Cognitive Services OpenAI User on the resource.",
        )
    if variable is None:
        return ModelSetupError(
            f"{section}: {where} requires an API key ({said})",
            hint=f"Name the environment variable that holds it in {section}.api_key_env.",
        )
    return ModelSetupError(
        f"{section}: {where} "
        f"{'requires a valid' if config.preset.key_optional else 'refused the'} "
        f"key in {variable} ({said})",
        hint=f"Put a valid key with access to {config.model!r} into {variable}; the variable is "
        f"chosen by {section}.api_key_env.",
    )


#: The status that servers send with each type of error, for those that send it with status 200.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}


def told_error(document: JsonObject, missing: str) -> ServerError:
    """The error in a response that lacks the ``missing``; raises TransientFailure for a text."""
    if not (error := document.at("error")):
        said = document.text("error")[:LONGEST_MESSAGE]
        raise TransientFailure(f"the response holds no {missing}" + (f": {said}" if said else ""))
    code, kind = error.text("code"), error.text("type")  # some write the status as a text
    status = int(code) if code in map(str, range(400, 600)) else _STATUS_OF_TYPE.get(kind, 502)
    return ServerError(status, _said(error)[:LONGEST_MESSAGE], code, kind)


def _said(error: JsonObject) -> str:
    """The message, with what OpenRouter quotes of the provider behind it."""
    return ": ".join(filter(None, (error.text("message"), error.at("metadata").text("raw"))))


def _server_error(error: Any, secrets: Collection[str]) -> ServerError:
    # Google wraps its error in a list; Anthropic's library does not unwrap the `error` key.
    found = error.body[0] if isinstance(error.body, list) and error.body else error.body
    fields = JsonObject(found if isinstance(found, Mapping) else {"message": found})
    fields = fields.at("error") or fields
    whole = json.dumps(error.body, default=str) if error.body else ""
    message = _said(fields) or whole
    if error.response.has_redirect_location:
        message = f"it redirects to {error.response.headers['Location']}"
    wait = retry_after_seconds(error.response.headers, datetime.now(UTC))
    return ServerError(
        status=error.status_code,
        message=redact(" ".join(message.split()), secrets)[:LONGEST_MESSAGE],
        # Anthropic's stable error code is in the details.
        code=fields.text("code") or fields.at("details").text("error_code"),
        type=fields.text("type"),
        param=fields.text("param"),
        retry_after=wait_in_words(whole) if wait is None else wait,
    )


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    return str(error) if cause is None else str(cause) or _reason(cause)


#: Seconds to wait for a connection.
_LONGEST_CONNECT = 4.0


def require_abilities(section: str, config: ModelRole, request: ChatRequest) -> None:
    """Raise :class:`ModelSetupError` if the provider cannot take the request's images or tools."""
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


def settings_of(
    config: ModelRole, request: ChatRequest, refused: Collection[str] = ()
) -> dict[str, object]:
    usual = config.token_limit_field or config.preset.limit_field
    limit_field = usual if usual not in refused else next(n for n in _LIMITS if n != usual)
    wanted = {
        limit_field: token_limit(config, request),
        "temperature": config.temperature,
        "reasoning_effort": config.reasoning_effort,
        "response_format": reply_schema(config, request),
    }
    return {
        name: value for name, value in wanted.items() if value is not None and name not in refused
    }


class Wire(NamedTuple):
    """A protocol: its path, and functions that write a request and read an answer."""

    path: str
    body: Callable[[ModelRole, ChatRequest, Mapping[str, object]], dict[str, object]]
    read: Callable[[bytes, ChatRequest, ModelRole], ChatReply | ServerError]


class ServerClient:
    """Sends a role's requests to a server, without retries.

    ``section`` (``model.target``) is for messages. Once the server rejects a setting as
    unsupported, later requests omit it (the token limit is renamed first). Raises
    ModuleNotFoundError if signing in to Azure needs the extra ``azure``.
    """

    def __init__(
        self,
        section: str,
        config: ModelRole,
        wire: Wire,
        key: str,
        pool: Any,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        observe: Observer = silent,
    ) -> None:
        self._section, self._config, self._wire = section, config, wire
        self._observe, self._secrets = observe, [key, *headers.values()]
        self._refused = set[str]()
        azure, self._library = config.azure, library_of(config)
        self._signed_in = signed_in(section, azure) if azure and azure.auth != "key" else None
        # Not OpenAI's own Azure client: it would read environment variables.
        older = azure.api_version if azure else None
        by_azure = {"api-key": key} if older and key != NO_KEY else {}
        is_anthropic = config.preset.protocol == "messages"
        client = self._library.AsyncAnthropic if is_anthropic else self._library.AsyncOpenAI
        self._server = client(
            api_key=key,
            base_url=base_url_of(config),
            default_query={"api-version": older} if older else None,
            default_headers={**by_azure, **headers},
            http_client=pool,
            max_retries=0,
            # `_send` applies our own timeout: the library reports any hang-up as a timeout.
            timeout=self._library.Timeout(None, connect=_LONGEST_CONNECT),
        )

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises :class:`TransientFailure` and the errors of :class:`ChatClient`."""
        config, wire = self._config, self._wire
        require_abilities(self._section, config, request)
        tools = {tool.name for tool in request.tools}
        sent_back = tuple(sendable(message, tools) for message in request.messages)
        request = replace(request, messages=sent_back)
        while True:
            settings = settings_of(config, request, self._refused)
            try:
                sent = wire.body(config, request, settings)
                answer: bytes | ChatReply | ServerError = await self._send(sent)
                if isinstance(answer, bytes):
                    answer = wire.read(answer, request, config)
            except RecursionError as error:
                raise TransientFailure("JSON of the model is nested too deeply") from error
            if isinstance(answer, ChatReply):
                return answer
            if (
                (
                    answer.too_long
                    or _TOO_LARGE in answer.message
                    or _TOO_MANY_WORDS.search(answer.message)
                )
                and settings.keys() & _LIMITS
                and config.preset.protocol != "messages"  # which requires a limit
            ):
                # vLLM reserves the limit; one that it has no room for is more than it ever gives.
                config = config.model_copy(update={"max_output_tokens": None})
                request = replace(request, max_output_tokens=None)
                continue
            refused = answer.refused_setting(settings)
            if refused is None or not self._can_do_without(refused):
                raise answer.exception(self._section, config)

    async def _send(self, body: dict[str, object]) -> bytes | ServerError:
        config = self._config
        options = {"headers": await self._signed_in() if self._signed_in else {}}
        try:
            async with asyncio.timeout(config.timeout):
                # Not the library's methods for this path: they import a provider's whole API and
                # walk the body field by field, which takes longer than sending it.
                answer: bytes = await self._server.post(
                    self._wire.path, cast_to=bytes, body=body, options=options
                )
                return answer
        except self._library.APIStatusError as error:
            return _server_error(error, self._secrets)
        except TimeoutError as error:
            raise TransientFailure(f"no answer within {config.timeout:g} s") from error
        except (
            *(self._library.APIConnectionError, lasting_import("aiohttp").ClientError),
            UnicodeError,
        ) as error:
            # The libraries let pass what aiohttp says of a response that is no HTTP, and what the
            # resolver says of a name that no host can have.
            # aiohttp says `ssl:default` of every address, also one without TLS
            said = re.sub(r" ssl:\w+", "", _reason(error)).split()
            found = redact(" ".join(said), self._secrets)[:LONGEST_MESSAGE]
            kind = type(error.__cause__).__name__
            nobody = kind in ("ConnectError", "ConnectTimeout", "ProxyError") or isinstance(
                error.__cause__ or error, UnicodeError
            )
            what = "proxy" if kind == "ProxyError" else "connection"
            raise TransientFailure(
                f"the {what} failed: {found} ({base_url_of(config)})", unreachable=nobody
            ) from error

    def _can_do_without(self, setting: str) -> bool:
        if setting in self._refused:
            return True  # another call has found this out meanwhile
        is_limit = setting in _LIMITS
        if is_limit and not self._refused.isdisjoint(_LIMITS):
            return False  # the server accepts neither name
        self._refused.add(setting)
        other = next(name for name in _LIMITS if name != setting)
        remedy = f"sent as {other}" if is_limit else "left out"
        refusal = f"{self._section}: {self._config.model} does not support {setting}"
        self._observe(Note(f"{refusal}; it is {remedy} from now on.", level="warning"))
        return True
