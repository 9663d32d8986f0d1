"""An error that a server answered with, and what it means for the call and the run."""

import re
from dataclasses import dataclass

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.model.call_key import base_url_of
from skillopt_ci.model.client import ModelRefusal
from skillopt_ci.model.keys import key_variable
from skillopt_ci.model.transient import TransientFailure

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
