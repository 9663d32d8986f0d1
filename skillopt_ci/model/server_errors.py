"""What a model server's error means: wait, another request, or a setup that a person must mend."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from skillopt_ci.config.models import ModelRole
from skillopt_ci.errors import ModelSetupError, SkilloptError
from skillopt_ci.model.access import base_url_of, redact
from skillopt_ci.model.retry import TransientFailure, retry_after_seconds, wait_in_words
from skillopt_ci.model.types import JsonObject, ModelRefusal, RequestTooLarge, Usage

LONGEST_MESSAGE = 500
#: Messages of servers that answer 400 to a wrong key, or block an account with a policy's code.
_BAD_KEY_WORDS = re.compile(
    r"(?i)api[ _]key (?:not valid|is invalid|expired)|invalid api[ _]key"
    r"|temporarily (?:blocked|limited|revoked)"
)
#: The model's output was no call or JSON, or the account made too many calls.
_RETRIED = frozenset({"json_validate_failed", "tool_use_failed", "rate_limit_exceeded"})
#: 402 may ask to wait (OpenRouter), 424 is a failed generation (TGI), 499 is overload (Gemini).
_PASSING = frozenset({402, 408, 409, 424, 425, 429, 499, *range(500, 1000)}) - {501}  # 501 lasts
_UNPAID = frozenset(
    {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached", "quota_exceeded"}
    | {"contract_spend_limit_reached", "enforced_spend_limit_reached", "Arrearage", "1113"}  # Z.AI
    | {"linked_organization_spend_limit_reached", "budget_exceeded", "exceeded_current_quota_error"}
)
_UNPAID_WORDS = re.compile(
    r"(?i)credit balance is too low|specified (?:\w+ )?API usage limits|insufficient balance"
    r"|have any credits|credits are depleted|free quota has been exhausted|^key limit exceeded"
    r"|monthly spending (?:limit|cap)|, limit: 0\b"
)
_FILTERED = frozenset(
    {"content_filter", "content_policy_violation", "data_inspection_failed", "invalid_prompt"}
    | {"image_content_policy_violation", "misalignment_policy_violation", "1301"}  # Z.AI
    | {"bio_policy", "cyber_policy", "refusal"}  # the last is OpenRouter's
)
_FILTERED_WORDS = re.compile(
    r"(?i)content (?:management|filtering) policy|(?:input was|(?<!account )has been) flagged"
    r"|content exists risk|content violates usage"
    r"|(?:input|output|generated) (?:\w+ ){0,2}may contain (?:inappropriate|sensitive|unsafe)"
)
_TOO_LONG = frozenset({"context_length_exceeded", "string_above_max_length", "1261"})  # Z.AI
_TOO_LONG_WORDS = re.compile(
    r"(?i)context (?:length|window|size|limit)|(?:prompt|input) is too long|too many tokens: total"
    r"|maximum (?:prompt|model|allowed input) length|range of input length"
    r"|(?:input|prompt) token count\b.*\bexceeds|exceeded model token limit|`inputs` tokens \+"
)
#: One request is over OpenAI's or Groq's tokens per minute; the limit of the answer counts there.
_TOO_LARGE = "Request too large"
_TOO_MANY_WORDS = re.compile(
    r"max_\w*tokens\b.*(?:too large|not be greater|exceed|at most|fewer|less|maximum|range)\b"
)
_UNSUPPORTED_WORDS = re.compile(
    r"(?i)unsupported|not support|unrecogni[sz]ed|unknown|unexpected|deprecated|may only be set"
    r"|not (?:permitted|allowed|available)|extra_forbidden"
    r"|only \S+ is allowed|must be one of|input should be '"  # it knows the setting, not the value
)
#: What OpenAI and Azure say of what only the newer interface does: a model, reasoning with tools.
_OTHER_INTERFACE = re.compile("v1/responses|chatCompletion operation does not work")
#: For each setting, the names that servers use for it in errors.
_SETTING_WORDS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("max_completion_tokens", "max_tokens", "temperature")},
    "reasoning_effort": (
        *("reasoning_effort", "reasoningEffort", "reasoning.effort", "output_config.effort"),
        *("effort", "thinking"),
    ),
    "response_format": (
        *("response_format", "json_schema", "structured output", "json mode", "text.format"),
        *("output_config.format", "output_format", "schema"),
    ),
}


@dataclass(frozen=True, slots=True)
class ServerError:
    """A server's error; ``retry_after`` is in seconds."""

    status: int
    message: str
    code: str = ""
    type: str = ""
    param: str = ""
    retry_after: float | None = None
    usage: Usage | None = None

    def _is(self, codes: frozenset[str], words: re.Pattern[str] | None = None) -> bool:
        said = words is not None and words.search(self.message) is not None
        return said or self.code in codes or self.type in codes

    @property
    def too_long(self) -> bool:
        return self.status == 413 or self._is(_TOO_LONG, _TOO_LONG_WORDS)  # noqa: PLR2004

    @property
    def asks_too_much(self) -> bool:
        """Whether the same request might pass without a limit on the answer."""
        said = self.message
        return self.too_long or _TOO_LARGE in said or bool(_TOO_MANY_WORDS.search(said))

    def exception(self, section: str, config: ModelRole) -> SkilloptError:
        where, message = base_url_of(config), self.message
        said = f"status {self.status}: {message}" if message else f"status {self.status}"
        if self._is(_UNPAID, _UNPAID_WORDS) or (self.status == 402 and self.retry_after is None):  # noqa: PLR2004
            return ModelSetupError(
                f"{section}: the account has no quota left at {where}: {message}",
                hint="Check plan, billing and spending limit with the provider; "
                "waiting will not help.",
            )
        # The page of a firewall or proxy in front of the server says nothing of the model or key.
        is_page = message.startswith(("<", "error code: "))
        if _TOO_LARGE in message or (is_page and self.status == 413):  # noqa: PLR2004
            return RequestTooLarge(
                f"{section}: a request is over the limit of "
                f"{'a proxy in front of' if is_page else 'the account at'} {where}: {message}",
                hint=f"Raise that limit, or lower {section}.max_output_tokens, "
                "gradient.max_minibatch_chars or optimizer.slow_update_samples.",
            )
        if self.status == 407:  # noqa: PLR2004
            return TransientFailure(f"the proxy failed: {said}", unreachable=True)
        filtered = self._is(_FILTERED, _FILTERED_WORDS) and not _BAD_KEY_WORDS.search(message)
        # Azure's endpoints make any error of the model a 424, and `told_error` one without a status
        # a 502, even if the prompt causes it.
        wrapped = self.status in {424, 502} and (filtered or self.too_long)
        if self._is(_RETRIED) or (self.status in _PASSING and not wrapped):
            busy = self.status in {402, 429, 503, 529}
            wait = wait_in_words(message) if self.retry_after is None else self.retry_after
            return TransientFailure(said, retry_after=wait, overloaded=busy, usage=self.usage)
        paid = self.usage if self.usage and not self.usage.estimated else Usage(calls=1)
        if filtered:
            return ModelRefusal(f"The content filter refused the prompt: {message}", usage=paid)
        if self.too_long:
            return ModelRefusal(f"The prompt is too long for the model: {message}", usage=paid)
        refused = {401} if is_page else {401, 403}
        if self.status in refused or _BAD_KEY_WORDS.search(message):
            return _key_refused(said, section, config)
        unserved = f"{section}: {where} does not serve {config.model!r} ({said})"
        if _OTHER_INTERFACE.search(message):
            return ModelSetupError(unserved, hint=f"Set {section}.api to responses.")
        if self.status in {404, 410}:
            messages = config.preset.protocol == "messages"
            return ModelSetupError(
                unserved,
                hint="Check model's spelling and access, and that base_url ends before "
                + ("/v1/messages." if messages else "/chat/completions (most end in /v1)."),
            )
        return ModelSetupError(
            f"{section}: {where} rejects requests for {config.model!r} ({said})",
            hint="Check the role's parameters, extra_body and base_url. If the answer is a web "
            "page, a firewall in between sent it.",
        )

    def refused_setting(self, sent: Collection[str]) -> str | None:
        """The unsupported setting in ``sent``, or None. Any complaint about a schema counts."""
        if self.status not in {400, 422} or self.too_long or self._is(_RETRIED, _OTHER_INTERFACE):
            return None
        complains = bool(_UNSUPPORTED_WORDS.search(f"{self.code} {self.message}"))
        possible = {
            name: spoken
            for name, spoken in _SETTING_WORDS.items()
            if name in sent and (complains or name == "response_format")
        }
        by_param = [name for name, spoken in possible.items() if self.param in spoken]
        by_words = [
            name
            for name, spoken in possible.items()
            if re.search(rf"(?i)\b(?:{'|'.join(map(re.escape, spoken))})s?\b", self.message)
        ]
        return next(iter(by_param + by_words), None)


def _key_refused(said: str, section: str, config: ModelRole) -> ModelSetupError:
    variable, where = config.key_variable, base_url_of(config)
    if config.azure is not None and config.azure.auth != "key":
        return ModelSetupError(
            f"{section}: {where} refused the account of {config.azure.auth} ({said})",
            hint="Give that account the role Cognitive Services OpenAI User on the resource.",
        )
    if variable is None:
        return ModelSetupError(
            f"{section}: {where} requires an API key ({said})",
            hint=f"Name the environment variable that holds it in {section}.api_key_env; with "
            "SkillOpt's files, set SkillOpt's variable, such as OPENAI_COMPATIBLE_API_KEY.",
        )
    return ModelSetupError(
        f"{section}: {where} "
        f"{'requires a valid' if config.preset.key_optional else 'refused the'} "
        f"key in {variable} ({said})",
        hint=f"Put a valid key with access to {config.model!r} into {variable}; the variable is "
        f"chosen by {section}.api_key_env.",
    )


#: The status that servers send with each type of error, for those that send it with status 200.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}


def told_error(document: JsonObject, missing: str, usage: Usage) -> ServerError:
    """The error in a response that lacks the ``missing``; raises TransientFailure for a text."""
    if not (error := document.at("error")):
        said = document.text("error", "message", "msg", "detail")[:LONGEST_MESSAGE]
        found = f"the response holds no {missing}" + (f": {said}" if said else "")
        raise TransientFailure(found, usage=usage)
    code, kind = error.text("code"), _kind(error)  # some write the status as a text
    status = int(code) if code in map(str, range(400, 600)) else _STATUS_OF_TYPE.get(kind, 502)
    return ServerError(status, _said(error)[:LONGEST_MESSAGE], code, kind, usage=usage)


def _kind(told: JsonObject) -> str:
    # OpenRouter's type, whose invalid_prompt is a malformed message
    return told.text("type") or told.at("metadata").text("error_type").replace("invalid_prompt", "")


def _said(error: JsonObject) -> str:
    """The message, with what OpenRouter quotes of the provider behind it."""
    return ": ".join(filter(None, (error.text("message"), error.at("metadata").text("raw"))))


def server_error(error: Any, secrets: Collection[str]) -> ServerError:
    # OpenAI's library unwraps the `error` key, even of a null, beside which the body tells more;
    # Anthropic's does not. Google wraps its error in a list.
    body = error.body or json.loads(error.response.text.strip() or "null")
    found = body[0] if isinstance(body, list) and body else body
    fields = JsonObject(found if isinstance(found, Mapping) else {"message": found})
    fields = fields.at("error") or fields
    whole = json.dumps(body, default=str) if body else ""
    message = _said(fields) or whole
    if error.response.has_redirect_location:
        message = f"it redirects to {error.response.headers['Location']}"
    wait = retry_after_seconds(error.response.headers, datetime.now(UTC))
    return ServerError(
        status=error.status_code,
        message=redact(" ".join(message.split()), secrets)[:LONGEST_MESSAGE],
        # Anthropic's stable error code is in the details.
        code=fields.text("code") or fields.at("details").text("error_code"),
        type=_kind(fields),
        param=fields.text("param"),
        retry_after=wait_in_words(whole) if wait is None else wait,
    )
