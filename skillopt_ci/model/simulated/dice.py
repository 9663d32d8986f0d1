"""Chance without a generator's state: every draw is a hash of what it is drawn for."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from skillopt_ci.messages import Message

T = TypeVar("T")

_SPAN = 2**64


def content_key(messages: Sequence[Message], attempt: int = 0) -> str:
    """Return the SHA-256 of a request's content, in hex."""
    content = [[message.role, message.content, *_tool_use(message)] for message in messages]
    return hashlib.sha256(json.dumps([content, attempt]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Dice:
    """Draws that depend on ``seed``, on ``key`` and on the name of the draw alone."""

    seed: int
    key: str

    def roll(self, name: str) -> float:
        """Return a number from 0 up to, but not including, 1."""
        digest = hashlib.sha256(f"{self.seed}\0{self.key}\0{name}".encode()).digest()
        return int.from_bytes(digest[:8], "big") / _SPAN

    def chance(self, name: str, probability: float) -> bool:
        """Return whether an event of this probability happens."""
        return self.roll(name) < probability

    def pick(self, name: str, options: Sequence[T]) -> T:
        """Return one of ``options``, which must not be empty."""
        return options[int(self.roll(name) * len(options))]


def _tool_use(message: Message) -> list[str]:
    called = [part for call in message.tool_calls for part in (call.id, call.name, call.arguments)]
    return [*called, message.tool_call_id] if message.tool_call_id else called
