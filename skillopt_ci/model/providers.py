"""Calls to model servers under any protocol: one try per call."""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError
from skillopt_ci.messages import Image, Message, ToolCall, well_formed
from skillopt_ci.model.access import NO_KEY, base_url_of, library_of, redact, signed_in
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.server_errors import LONGEST_MESSAGE, ServerError, server_error
from skillopt_ci.model.types import (
    ChatReply,
    ChatRequest,
    JsonObject,
    Usage,
    estimated_usage,
    reply_schema,
    token_limit,
)
from skillopt_ci.progress import Note, Observer, silent
from skillopt_ci.util import lasting_import

#: Servers' two names for the limit of output tokens, each with the other.
_LIMITS = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
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
        unclear = not call.id or call.id in found
        identity = f"{call.id or 'call'}_{number}" if unclear else call.id
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
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(written or "{}"), dict):
                return written
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
        raise TransientFailure("the response is not an object")
    return JsonObject(document)


def no_answer(reply: ChatReply) -> TransientFailure:
    """The failure for a ``reply`` without text or tool calls, which OpenAI's protocols exclude.

    If its tokens were billed, it becomes the answer when retries run out.
    """
    kept = reply if reply.usage.completion_tokens and not reply.usage.estimated else None
    return TransientFailure("the server sent no answer", reply=kept, usage=reply.usage)


def usage_of(told: JsonObject, request: ChatRequest, text: str) -> Usage:
    """The usage of one call in any protocol; estimated from the texts if none is reported."""
    of_prompt = told.at("prompt_tokens_details") or told.at("input_tokens_details")
    of_answer = told.at("completion_tokens_details") or told.at("output_tokens_details")
    read, written = map(told.number, ("cache_read_input_tokens", "cache_creation_input_tokens"))
    # Anthropic does not include these in the prompt's tokens; LiteLLM does, in `prompt_tokens`.
    prompt = told.number("prompt_tokens") or told.number("input_tokens") + read + written
    counts = map(told.money, ("completion_tokens", "output_tokens", "total_tokens"))
    if not prompt or all(count is None for count in counts):
        return estimated_usage(request.messages, text)
    answer_tokens = told.number("completion_tokens", "output_tokens")
    # DeepSeek, and Moonshot and Together, say it beside the other counts.
    beside = told.number("prompt_cache_hit_tokens", "cached_tokens")
    cost = told.money("cost")
    if told.get("is_byok") is True:  # OpenRouter's own share; the key's provider charges the rest
        cost = (cost or 0.0) + (told.at("cost_details").money("upstream_inference_cost") or 0.0)
    return Usage(
        calls=1,
        prompt_tokens=prompt,
        # Gemini and xAI count reasoning only in the total.
        completion_tokens=max(answer_tokens, told.number("total_tokens") - prompt),
        cached_tokens=min(of_prompt.number("cached_tokens") or beside or read, prompt),
        cache_write_tokens=min(of_prompt.number("cache_write_tokens") or written, prompt),
        reasoning_tokens=of_answer.number("reasoning_tokens", "thinking_tokens"),
        # OpenRouter charges nothing for an empty answer; servers without prices always say 0.
        cost_usd=cost if (cost or not answer_tokens) else None,
    )


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    return str(error) if cause is None else (str(cause) or _reason(cause))


#: Seconds to wait for a connection.
_LONGEST_CONNECT = 4.0


def settings_of(
    config: ModelRole, request: ChatRequest, refused: Collection[str] = ()
) -> dict[str, object]:
    usual = config.token_limit_field or config.preset.limit_field
    limit_field = _LIMITS[usual] if usual in refused else usual
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
    unsupported, later requests omit it (a token limit is renamed first). Raises
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
        headers: Mapping[str, str] = {},
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
        tools = {tool.name for tool in request.tools}
        request = replace(
            request, messages=tuple(sendable(message, tools) for message in request.messages)
        )
        while True:
            settings = settings_of(config, request, self._refused)
            try:
                answer: bytes | ChatReply | ServerError = await self._send(
                    wire.body(config, request, settings)
                )
                if isinstance(answer, bytes):
                    if answer.lstrip().startswith((b"data:", b"event:", b":")):
                        raise ModelSetupError(
                            f"{self._section}: {base_url_of(config)} streams its answer unasked",
                            hint=f"Try `extra_body: {{stream: false}}` in {self._section}.",
                        )
                    answer = wire.read(answer, request, config)
            except RecursionError as error:
                raise TransientFailure("JSON of the model is nested too deeply") from error
            if isinstance(answer, ChatReply):
                return answer
            if (
                answer.asks_too_much
                and settings.keys() & _LIMITS
                and config.preset.protocol != "messages"  # which requires a limit
            ):
                # vLLM reserves the limit; one that it has no room for is more than it ever gives.
                config = config.model_copy(update={"max_output_tokens": None})
                request = replace(request, max_output_tokens=None)
                continue
            refused = answer.refused_setting(settings)
            if refused is None or not self._stop_sending(refused):
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
            return server_error(error, self._secrets)
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
            unreachable = kind in ("ConnectError", "ConnectTimeout", "ProxyError") or isinstance(
                error.__cause__ or error, UnicodeError
            )
            what = "proxy" if kind == "ProxyError" else "connection"
            raise TransientFailure(
                f"the {what} failed: {found} ({base_url_of(config)})", unreachable=unreachable
            ) from error

    def _stop_sending(self, setting: str) -> bool:
        if setting in self._refused:
            return True  # another call has found this out meanwhile
        other = _LIMITS.get(setting)
        if other in self._refused and self._config.max_output_tokens:
            return False  # the server takes the role's own limit under neither name
        remedy = f"sent as {other}" if other and other not in self._refused else "left out"
        self._refused.add(setting)
        refusal = f"{self._section}: {self._config.model} does not support {setting}"
        self._observe(Note(f"{refusal}; it is {remedy} from now on.", level="warning"))
        return True
