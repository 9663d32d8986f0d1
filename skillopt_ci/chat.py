"""A chat message: the one value that tasks, prompts and model calls share."""

from dataclasses import dataclass
from typing import Literal

ChatRole = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message of plain text."""

    role: ChatRole
    content: str
