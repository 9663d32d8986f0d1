"""What every part of skillopt-ci asks of a model, and what it gets back.

A :class:`ChatClient` answers one request. The real thing is a stack of them, outermost first::

    cached (SQLite) → metered (budget, usage per stage) → retrying (backoff) → provider

where a provider is a server, a program or a simulation.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from skillopt_ci.errors import InfrastructureError, SkilloptError
from skillopt_ci.messages import Message, ToolCall
from skillopt_ci.model.usage import Usage

_CHARACTERS_PER_TOKEN = 4


class Role(StrEnum):
    """Who is asked: the model under training, the one that edits, the one that grades."""

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
    """The JSON Schema that a reply must fit, where the server can see to it."""

    name: str
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One call. Its content is the role, messages, tools, reply schema, limit and attempt.

    ``stage`` (rollout, analyst, merge, ranking, evaluation, …) is a label for the accounts and
    does not change the answer. ``attempt`` tells independent samples of the same prompt apart.
    """

    role: Role
    stage: str
    messages: tuple[Message, ...]
    max_output_tokens: int | None = None
    attempt: int = 0
    tools: tuple[Tool, ...] = ()
    reply_schema: ReplySchema | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """An answered call. ``finish_reason`` is the server's word (``stop``, ``length``, …).

    ``trace`` is what an agent says of how it came to its answer, empty for a plain model.
    ``tool_calls`` are the tools that it wants used before it goes on.
    """

    text: str
    finish_reason: str
    model: str
    usage: Usage
    trace: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


class ChatClient(Protocol):
    """Anything that answers chat requests."""

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Answer ``request``.

        Raises :class:`~skillopt_ci.errors.ModelSetupError` when no retry can help,
        :class:`ModelRefusal` when the prompt itself is the cause,
        :class:`ModelUnavailable` when retries ran out, and
        :class:`~skillopt_ci.errors.BudgetExhausted` before a call that a budget forbids.
        """
        ...


_ONE_UNPAID_CALL = Usage(calls=1)


class ModelRefusal(SkilloptError):
    """The server will not answer this prompt (content filter, too long): the task's own outcome.

    ``usage`` is what the refused call consumed all the same.
    """

    def __init__(self, message: str, *, hint: str = "", usage: Usage = _ONE_UNPAID_CALL) -> None:
        super().__init__(message, hint=hint)
        self.usage = usage


class ModelUnavailable(InfrastructureError):
    """A call kept failing for reasons that are not the prompt's."""


def estimated_usage(request: ChatRequest, text: str) -> Usage:
    """The usage of one call, counted from the length of its texts."""
    characters = sum(len(message.content) for message in request.messages)
    return Usage(
        calls=1,
        prompt_tokens=math.ceil(characters / _CHARACTERS_PER_TOKEN),
        completion_tokens=math.ceil(len(text) / _CHARACTERS_PER_TOKEN),
        cost_usd=None,
        estimated=True,
    )
