"""The providers of models: where each is reached, what its key is called and what it understands.

A preset (they stand in `providers.toml`) says what can be said of a provider as a whole. What
differs from model to model (a temperature that is refused, a schema that is not understood) is
found out while calling.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, get_args

Hosted = Literal["openai", "azure", "anthropic", "gemini", "qwen", "minimax"]
MoreHosted = Literal["openrouter", "groq", "deepseek", "mistral", "together"]
Served = Literal["ollama", "vllm", "llamacpp", "litellm", "compatible"]
Programs = Literal["copilot", "claude-code", "codex", "cursor", "command", "simulated"]
ProviderName = Literal[Hosted, MoreHosted, Served, Programs]
#: `chat` is OpenAI's chat completions, `messages` Anthropic's API.
Protocol = Literal["chat", "messages", "command", "simulated"]
LimitField = Literal["max_completion_tokens", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Preset:
    """One provider.

    ``key`` names the environment variable of its key, which need not be set if ``key_optional``.
    ``structured`` is how a reply can be held to a schema: by the schema, only to be JSON at all,
    or not. ``thinking`` has the fields of the request that turn thinking on and off, ``body``
    those that every request has. ``rejects`` names settings of a role that it has no use for.
    ``carried`` names the fields of an answer that must come back with its tool calls. ``caching``
    says who sees to it that the beginning of a prompt is read once only. ``target`` and
    ``optimizer`` are examples of model names, ``program`` and ``variables`` the command of an agent
    and what it may see of the environment; ``same_key`` names variables that are filled from
    another where they are not set.
    """

    title: str
    protocol: Protocol = "chat"
    base_url: str = ""
    key: str = ""
    key_optional: bool = False
    limit_field: LimitField = "max_tokens"
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    tools: bool = True
    images: bool = True
    caching: Literal["marked", "automatic", "server", "unknown"] = "unknown"
    regions: Mapping[str, str] = field(default_factory=dict)
    thinking: Mapping[bool, Mapping[str, object]] = field(default_factory=dict)
    body: Mapping[str, object] = field(default_factory=dict)
    rejects: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    target: str = ""
    optimizer: str = ""
    program: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    same_key: Mapping[str, str] = field(default_factory=dict)


def _read_presets() -> dict[ProviderName, Preset]:
    tables = tomllib.loads(resources.files(__package__).joinpath("providers.toml").read_text())
    return {name: _preset(**tables[name]) for name in get_args(ProviderName)}


def _preset(
    thinking: Mapping[str, Mapping[str, object]] = MappingProxyType({}), **table: Any
) -> Preset:
    lists = {key: tuple(value) for key, value in table.items() if isinstance(value, list)}
    switch = {state == "on": body for state, body in thinking.items()}
    return Preset(thinking=switch, **{**table, **lists})


#: Every provider by its name in the configuration.
PROVIDERS: Mapping[ProviderName, Preset] = MappingProxyType(_read_presets())
