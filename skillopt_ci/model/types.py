"""Requests to models, their replies, and the errors of a call.

A :class:`ChatClient` answers one request. In a run it is a stack of up to four clients::

    Cached (SQLite) → Budgeted (budget, usage, secrets) → Retrying (backoff) → provider

where a provider is a server, a program or a simulation. Each role has its own last two clients.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, TypeVar

from pydantic import ConfigDict, Field

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ExitCode, InfrastructureError, SkilloptError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.redaction import Redact
from skillopt_ci.util import grouped

_Count = Annotated[int, Field(ge=0, strict=True)]
_COUNTS = (
    *("calls", "prompt_tokens", "completion_tokens"),
    *("cached_tokens", "reasoning_tokens", "cache_write_tokens"),
)
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of calls. ``cost_usd`` is None if any price is unknown.

    ``prompt_tokens`` include tokens read from and written to the provider's cache,
    ``completion_tokens`` reasoning. ``estimated``: counted from the text, as the server told none.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    calls: _Count = 0
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    cached_tokens: _Count = 0
    reasoning_tokens: _Count = 0
    cost_usd: _Dollars | None = 0.0
    estimated: Annotated[bool, Field(strict=True)] = False
    cache_write_tokens: _Count = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return self._with(other, 1)

    def beyond(self, other: "Usage") -> "Usage":
        """What of this usage is not in ``other``."""
        return self._with(other, -1)

    def _with(self, other: "Usage", sign: int) -> "Usage":
        counts: dict[str, Any] = {
            name: max(0, getattr(self, name) + sign * getattr(other, name)) for name in _COUNTS
        }
        cost = None
        if self.cost_usd is not None and other.cost_usd is not None:
            cost = max(0.0, self.cost_usd + sign * other.cost_usd)
        return Usage(**counts, cost_usd=cost, estimated=self.estimated or other.estimated)


class Account(NamedTuple):
    """The key that usage is booked under: a role's name and a stage."""

    role: str
    stage: str


Accounts = Mapping[Account, Usage]

#: Larger numbers from servers are taken for errors.
_MOST = 1e15

Key = TypeVar("Key", str, Account)


def total(accounts: Iterable[Usage]) -> Usage:
    return sum(accounts, Usage())


def by_stage(accounts: Accounts) -> dict[str, Usage]:
    return summed((account.stage, usage) for account, usage in accounts.items())


def by_role(accounts: Accounts) -> dict[str, Usage]:
    return summed((account.role, usage) for account, usage in accounts.items())


def summed(named: Iterable[tuple[Key, Usage]]) -> dict[Key, Usage]:
    """The sum of the usage under each key, in the order of the keys."""
    return {name: total(own) for name, own in sorted(grouped(named).items())}


class JsonObject(dict[str, object]):
    """A JSON object from outside. Members that are missing or of the wrong type read as empty."""

    def at(self, *path: str) -> "JsonObject":
        value: object = self
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return JsonObject(value) if isinstance(value, dict) else JsonObject()

    def each(self, key: str) -> list["JsonObject"]:
        value = self.get(key)
        listed = value if isinstance(value, list) else []
        return [JsonObject(one) for one in listed if isinstance(one, dict)]

    def text(self, *keys: str) -> str:
        # of the first key with a text that is not empty
        return next((as_text(self[key]) for key in keys if as_text(self.get(key))), "")

    def words(self, key: str, between: str = "") -> str:
        """The member's text, or the joined texts of its list of blocks."""
        blocks = self.each(key)
        if blocks or self.get(key) == []:
            return between.join(one.text("text") for one in blocks)
        return self.text(key)

    def money(self, key: str) -> float | None:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if 0 <= value <= _MOST else None

    def number(self, *keys: str) -> int:
        """The first of ``keys`` with a valid number, as an integer; 0 if there is none."""
        return next((int(one) for one in map(self.money, keys) if one is not None), 0)


def as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Role(StrEnum):
    """A model's role: it uses the skill (target), improves it (optimizer) or grades (judge)."""

    TARGET = "target"
    OPTIMIZER = "optimizer"
    JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call; ``parameters`` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """The JSON Schema of a reply, enforced if the server supports it."""

    name: str
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call. ``stage`` only labels its usage; ``attempt`` tells samples of a prompt apart."""

    role: Role
    stage: str
    messages: tuple[Message, ...]
    max_output_tokens: int | None = None
    attempt: int = 0
    tools: tuple[Tool, ...] = ()
    reply_schema: ReplySchema | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """An answer; ``finish_reason`` is in OpenAI's terms, ``trace`` tells of an agent's work."""

    text: str
    finish_reason: str
    model: str
    usage: Usage
    trace: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


class ChatClient(Protocol):
    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``.

        Raises ModelSetupError if no retry can help, :class:`ModelRefusal` if the prompt is the
        cause, :class:`ModelUnavailable` if retries run out, BudgetExhausted if a budget is used up.
        """


class ModelRefusal(SkilloptError):
    """The server refuses this prompt (content filter, too long); this is the task's own outcome.

    ``usage`` is the usage of the refused call, with the tries before it.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, hint: str = "", usage: Usage = Usage(calls=1)) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class ModelUnavailable(InfrastructureError):
    """A call kept failing for reasons other than its prompt."""


class RequestTooLarge(ModelUnavailable):
    """One request is over a limit of the account or a proxy: no retry helps, a shorter one may."""


def bill(end: BaseException, usage: Usage) -> None:
    """Set what the call cost that ``end`` ends without an answer."""
    # a CancelledError has no such field, and asyncio takes no subclass of it
    vars(end)["usage"] = usage


def billed(end: BaseException) -> Usage:
    """What a call without an answer cost; clients add it to the arguments of the error."""
    return getattr(end, "usage", Usage())


#: For English text; code and other languages have fewer characters per token.
CHARACTERS_PER_TOKEN = 4


def token_count(text: str) -> int:
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def estimated_usage(messages: Iterable[Message], text: str) -> Usage:
    asked = "".join(message.content for message in messages)
    return Usage(1, token_count(asked), token_count(text), cost_usd=None, estimated=True)


def reply_schema(config: ModelRole, request: ChatRequest) -> ReplySchema | None:
    """The schema to send; None if the server cannot enforce it or the configuration forbids it."""
    told = config.structured_output == "auto" and config.preset.structured != "none"
    return request.reply_schema if told else None


def token_limit(config: ModelRole, request: ChatRequest) -> int | None:
    limits = (config.max_output_tokens, request.max_output_tokens)
    return min((limit for limit in limits if limit is not None), default=None)


def redacted_message(message: Message, redact: Redact) -> Message:
    calls = (replace(call, arguments=redact(call.arguments)) for call in message.tool_calls)
    return replace(message, content=redact(message.content), tool_calls=tuple(calls))
