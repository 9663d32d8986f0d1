"""What determines an answer: the effective parameters of a call and the hash over them."""

import hashlib
import json
import re
from urllib.parse import quote

from skillopt_ci.config.models import ModelRole
from skillopt_ci.config.providers import PROVIDERS
from skillopt_ci.messages import Message
from skillopt_ci.model.types import ChatRequest, ReplySchema

#: OpenAI's models that only its newer interface serves.
_RESPONSES_ONLY = re.compile(r"(gpt-5(\.\d+)?-codex|codex-mini|(gpt-5(\.\d+)?|o1|o3)-pro)(-.*)?")
_V1 = "/openai/v1"


def base_url_of(config: ModelRole) -> str:
    """Root of the API that the role calls."""
    preset = config.preset
    url = config.base_url or preset.regions.get(config.region or "") or preset.base_url
    if config.provider == "azure":
        return _azure_root(url.rstrip("/"), config)
    return url.rstrip("/")


def _azure_root(url: str, config: ModelRole) -> str:
    """The v1 address of a resource, or that of the deployment if an older version is asked for."""
    if config.azure is None or config.azure.api_version is None:
        return url if url.endswith("/v1") else f"{url}{_V1}"
    older = f"{url.removesuffix(_V1)}/openai"
    deployment = "" if uses_responses(config) else f"/deployments/{quote(config.model, safe='')}"
    return older + deployment


def uses_responses(config: ModelRole) -> bool:
    """Whether the role's calls go to OpenAI's newer interface."""
    if config.api is not None:
        return config.api == "responses"
    return config.provider in ("openai", "azure") and bool(_RESPONSES_ONLY.fullmatch(config.model))


def reply_schema(config: ModelRole, request: ChatRequest) -> ReplySchema | None:
    """The schema that the server is told of: none where it cannot see to it or must not be."""
    told = config.structured_output == "auto" and config.preset.structured != "none"
    return request.reply_schema if told else None


def token_limit(config: ModelRole, request: ChatRequest) -> int | None:
    """The smaller of the role's and the request's limits of output tokens."""
    limits = (config.max_output_tokens, request.max_output_tokens)
    return min((limit for limit in limits if limit is not None), default=None)


def call_key(config: ModelRole, request: ChatRequest) -> str:
    """SHA-256 in hex over everything that determines the answer.

    Role, stage, API key and timeout are left out: they do not.
    """
    content: dict[str, object] = {
        "provider": config.provider,
        # What has no address is kept under this one, as it always was.
        "base_url": base_url_of(config) or PROVIDERS["openai"].base_url,
        "model": config.model,
        "messages": [_told(message) for message in request.messages],
        "max_output_tokens": token_limit(config, request),
        "temperature": config.temperature,
        "reasoning_effort": config.reasoning_effort,
        "extra_body": config.extra_body,
        "seed": config.seed if config.provider == "simulated" else None,
        "attempt": request.attempt,
    }
    if config.program:
        content["command"] = list(config.program)
    # Absent, not empty: what was answered before there were such settings keeps its key.
    if config.thinking is not None:
        content["thinking"] = config.thinking
    if config.preset.protocol == "chat" and uses_responses(config):
        content["api"] = "responses"
    if config.azure is not None and config.azure.api_version is not None:
        content["api_version"] = config.azure.api_version
    if request.tools:
        content["tools"] = [[one.name, one.description, one.parameters] for one in request.tools]
    schema = reply_schema(config, request)
    if schema is not None:
        content["reply_schema"] = schema.schema
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _told(message: Message) -> list[object]:
    told: list[object] = [message.role, message.content]
    if message.images or message.tool_calls or message.tool_call_id:
        images = [[image.media_type, image.data] for image in message.images]
        calls = [
            [call.id, call.name, call.arguments, *filter(None, [call.state])]
            for call in message.tool_calls
        ]
        told += [images, calls, message.tool_call_id]
    return told
