"""A chat message: the one value that tasks, prompts and model calls share."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

ChatRole = Literal["system", "user", "assistant", "tool"]
#: Our role for each of OpenAI's.
CHAT_ROLES: dict[str, ChatRole] = {one: one for one in get_args(ChatRole)} | {"developer": "system"}


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a message: ``data`` is base64, ``media_type`` such as ``image/png``."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; ``arguments`` is the model's JSON text. ``state`` must go back unchanged."""

    id: str
    name: str
    arguments: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message: text, and in a user's message also pictures.

    An assistant's may make ``tool_calls``; a ``tool`` message holds the result of ``tool_call_id``.
    """

    role: ChatRole
    content: str
    images: tuple[Image, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


def well_formed(text: str) -> str:
    """``text`` with lone surrogates replaced by ``?``, since UTF-8 cannot encode them."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def fenced(text: str, info: str = "", *, least: int = 3) -> str:
    """``text`` in a backtick fence longer than any run of backticks inside it (CommonMark 4.5)."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=0)
    fence = "`" * max(least, longest + 1)
    return f"{fence}{info}\n{text}\n{fence}"
