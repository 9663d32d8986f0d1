"""What `init` knows of the places where models are served."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Preset:
    """A provider's usual settings.

    ``target`` and ``optimizer`` are examples of model names; ``base_url`` is empty where only the
    user knows it.
    """

    target: str
    optimizer: str
    provider: str = "openai"
    base_url: str = ""
    api_key_env: str = ""
    more: Mapping[str, object] = field(default_factory=dict)


PRESETS = {
    "openai": Preset(
        "gpt-5.4-mini",
        "gpt-5.5",
        base_url="https://api.openai.com/v1",
        api_key_env="OPENAI_API_KEY",
    ),
    "anthropic": Preset(
        "claude-haiku-4-5",
        "claude-opus-4-6",
        base_url="https://api.anthropic.com/v1",
        api_key_env="ANTHROPIC_API_KEY",
    ),
    "gemini": Preset(
        "gemini-3.5-flash",
        "gemini-3.1-pro-preview",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        api_key_env="GEMINI_API_KEY",
    ),
    "openrouter": Preset(
        "qwen/qwen3-32b",
        "anthropic/claude-opus-4.6",
        base_url="https://openrouter.ai/api/v1",
        api_key_env="OPENROUTER_API_KEY",
        more={"token_limit_field": "max_tokens"},
    ),
    "ollama": Preset(
        "qwen3:8b",
        "gpt-oss:20b",
        base_url="http://localhost:11434/v1",
        more={"token_limit_field": "max_tokens", "max_concurrency": 2, "timeout": 900},
    ),
    "compatible": Preset("my-small-model", "my-large-model"),
    "simulated": Preset("simulated-target", "simulated-optimizer", provider="simulated"),
}
