"""The request body in the words that a server was found to accept."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from skillopt_ci.model.call_key import token_limit
from skillopt_ci.model.client import ChatRequest
from skillopt_ci.model.openai_message import tool_as_sent
from skillopt_ci.model.server_error import ServerError
from skillopt_ci.settings.model import ModelRole

_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")
_OPTIONAL = ("temperature", "reasoning_effort")
_COMPLAINT = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected"
    r"|not (?:permitted|allowed)|extra_forbidden",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a server wants the token limit called, and which parameters it will not have."""

    limit_field: str
    renamed: bool = False
    dropped: frozenset[str] = frozenset()

    def without(self, parameter: str) -> "Dialect | None":
        """The dialect for a server that refused ``parameter``; None if nothing is left to try."""
        if parameter in _OPTIONAL:
            return replace(self, dropped=self.dropped | {parameter})
        if parameter != self.limit_field:
            return self
        if self.renamed:
            return None
        other = next(name for name in _LIMIT_FIELDS if name != parameter)
        return replace(self, limit_field=other, renamed=True)


def parameters(config: ModelRole, request: ChatRequest, dialect: Dialect) -> dict[str, object]:
    """The body's fields besides model and messages: only what is set and accepted."""
    wanted = {
        dialect.limit_field: token_limit(config, request),
        "temperature": config.temperature,
        "reasoning_effort": config.reasoning_effort,
    }
    chosen: dict[str, object] = {
        name: value
        for name, value in wanted.items()
        if value is not None and name not in dialect.dropped
    }
    if request.tools:
        chosen["tools"] = [tool_as_sent(tool) for tool in request.tools]
    return {**chosen, **config.extra_body}


def refused_parameter(error: ServerError, sent: Collection[str]) -> str | None:
    """The parameter among ``sent`` that the server says it does not support, if that is it."""
    said = f"{error.code} {error.message}"
    if error.status not in {400, 422} or not _COMPLAINT.search(said):
        return None
    named = [
        name
        for name in (*_LIMIT_FIELDS, *_OPTIONAL)
        if name in sent and (name == error.param or re.search(rf"\b{name}\b", error.message))
    ]
    return next((name for name in named if name == error.param), next(iter(named), None))
