"""What a server was found to accept, and the settings of a call in those terms."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from skillopt_ci.config.models import ModelRole
from skillopt_ci.model.call_key import reply_schema, token_limit
from skillopt_ci.model.client import ChatRequest
from skillopt_ci.model.server_error import ServerError

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

    The value of ``response_format`` is the :class:`~skillopt_ci.model.client.ReplySchema`.
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
