"""An error that a server answered with, and what it means for the call and the run."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.model.call_key import base_url_of
from skillopt_ci.model.retry import TransientFailure
from skillopt_ci.model.types import ModelRefusal

#: Said by servers that answer 400 to a wrong key.
_BAD_KEY_WORDS = re.compile(
    r"api[ _]key (?:not valid|is invalid)|invalid api[ _]key", re.IGNORECASE
)
#: The model wrote something that the server could not read as a call or as JSON: it may not again.
_GARBLED = frozenset({"json_validate_failed", "tool_use_failed"})
_OVERLOADED = frozenset({429, 503, 529})
_PASSING = frozenset({408, 409, 425, 429})
_UNPAID = frozenset(
    {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "quota_exceeded"}
    | {"contract_spend_limit_reached", "enforced_spend_limit_reached"}
    | {"linked_organization_spend_limit_reached"}
)
_UNPAID_WORDS = re.compile(r"credit balance is too low", re.IGNORECASE)
_FILTERED = frozenset({"content_filter", "content_policy_violation", "invalid_prompt"})
_FILTERED_WORDS = re.compile(r"content management policy|input was flagged", re.IGNORECASE)
_TOO_LONG = frozenset(
    {"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"}
)
_TOO_LONG_WORDS = re.compile(
    r"context (?:length|window|size)|(?:prompt|input) is too long", re.IGNORECASE
)
_UNSUPPORTED_WORDS = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|deprecated|may only be set"
    r"|not (?:permitted|allowed|available)|extra_forbidden",
    re.IGNORECASE,
)

#: By setting, the words in which servers of a protocol complain of it.
Words = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ServerError:
    """What a server said instead of an answer; ``retry_after`` is in seconds."""

    status: int
    message: str
    code: str = ""
    type: str = ""
    param: str = ""
    retry_after: float | None = None

    def _is(self, codes: frozenset[str], words: re.Pattern[str] | None = None) -> bool:
        """Whether code, type (which some use for the code) or message are among these."""
        said = words is not None and words.search(self.message) is not None
        return said or self.code in codes or self.type in codes

    def exception(self, section: str, config: ModelRole) -> SkilloptError:
        """What the error amounts to; ``section`` (``model.target``) is for messages."""
        where, message = base_url_of(config), self.message
        said = f"status {self.status}: {message}" if message else f"status {self.status}"
        if self.status == 402 or self._is(_UNPAID, _UNPAID_WORDS):  # noqa: PLR2004
            return ModelSetupError(
                f"{section}: the account has no quota left at {where}: {message}",
                hint="Check plan, billing and spending limit with the provider; "
                "waiting will not help.",
            )
        if self.status in _PASSING or self.status >= 500 or self._is(_GARBLED):  # noqa: PLR2004
            busy = self.status in _OVERLOADED
            return TransientFailure(said, retry_after=self.retry_after, overloaded=busy)
        if self._is(_FILTERED, _FILTERED_WORDS):
            return ModelRefusal(f"The content filter refused the prompt: {message}")
        if self.status == 413 or self._is(_TOO_LONG, _TOO_LONG_WORDS):  # noqa: PLR2004
            return ModelRefusal(f"The prompt is too long for the model: {message}")
        if self.status in {401, 403} or _BAD_KEY_WORDS.search(message):
            return _key_refused(said, section, config)
        if self.status in {404, 410}:
            return ModelSetupError(
                f"{section}: there is no model {config.model!r} at {where} ({said})",
                hint="Check model's spelling and access, and that base_url ends before "
                "/chat/completions (most end in /v1).",
            )
        return ModelSetupError(
            f"{section}: {where} will not take requests for {config.model!r} ({said})",
            hint="Check the role's parameters, extra_body and base_url.",
        )

    def refused_setting(self, sent: Collection[str], words: Words) -> str | None:
        """The setting among ``sent`` that the server says it does not support, if that is it.

        ``words`` has the settings that can be done without. A schema that is not understood
        counts, whatever is wrong with it.
        """
        if self.status not in {400, 422}:
            return None
        complains = bool(_UNSUPPORTED_WORDS.search(f"{self.code} {self.message}"))

        def named(spoken: tuple[str, ...]) -> bool:
            plain = "|".join(map(re.escape, spoken))
            found = re.search(rf"\b(?:{plain})s?\b", self.message, re.IGNORECASE)
            return self.param in spoken or found is not None

        refused = [
            name
            for name, spoken in words.items()
            if name in sent and (complains or name == "response_format") and named(spoken)
        ]
        by_name = (name for name in refused if self.param in words[name])
        return next(by_name, next(iter(refused), None))


def _key_refused(said: str, section: str, config: ModelRole) -> ModelSetupError:
    variable, where = config.key_variable, base_url_of(config)
    if config.azure is not None and config.azure.auth != "key":
        return ModelSetupError(
            f"{section}: {where} refused who signed in by {config.azure.auth} ({said})",
            hint="Give that account the role Cognitive Services OpenAI User on the resource.",
        )
    if variable is None:
        return ModelSetupError(
            f"{section}: {where} wants an API key ({said})",
            hint=f"Name the environment variable that holds it in {section}.api_key_env.",
        )
    return ModelSetupError(
        f"{section}: {where} refused the key in {variable} ({said})",
        hint=f"Put a valid key with access to {config.model!r} into {variable}; the variable is "
        f"chosen by {section}.api_key_env.",
    )
