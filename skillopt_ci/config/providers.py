"""The providers of models: where each is reached, what its key is called and what it understands.

A preset says what can be said of a provider as a whole. What differs from model to model (a
temperature that is refused, a schema that is not understood) is found out while calling.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

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
    rejects: frozenset[str] = frozenset()
    carried: tuple[str, ...] = ()
    target: str = ""
    optimizer: str = ""
    program: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    same_key: Mapping[str, str] = field(default_factory=dict)


def _switch(
    on: Mapping[str, object], off: Mapping[str, object]
) -> dict[bool, Mapping[str, object]]:
    return {True: on, False: off}


_TEMPLATE = _switch(
    {"chat_template_kwargs": {"enable_thinking": True}},
    {"chat_template_kwargs": {"enable_thinking": False}},
)
_TYPE = _switch({"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}})
_ADAPTIVE = _switch({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}})

_HOSTED: dict[ProviderName, Preset] = {
    "openai": Preset(
        "OpenAI",
        base_url="https://api.openai.com/v1",
        key="OPENAI_API_KEY",
        limit_field="max_completion_tokens",
        caching="automatic",
        target="gpt-5.4-mini",
        optimizer="gpt-5.5",
    ),
    "azure": Preset(
        "Azure OpenAI",
        key="AZURE_OPENAI_API_KEY",
        limit_field="max_completion_tokens",
        caching="automatic",
        target="gpt-5.4-mini",
        optimizer="gpt-5.5",
    ),
    "anthropic": Preset(
        "Anthropic",
        protocol="messages",
        base_url="https://api.anthropic.com",
        key="ANTHROPIC_API_KEY",
        caching="marked",
        thinking=_ADAPTIVE,
        target="claude-haiku-4-5",
        optimizer="claude-opus-4-6",
    ),
    "gemini": Preset(
        "Google Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key="GEMINI_API_KEY",
        limit_field="max_completion_tokens",
        caching="automatic",
        target="gemini-3.5-flash",
        optimizer="gemini-3.1-pro-preview",
    ),
    "qwen": Preset(
        "Qwen (Alibaba Cloud)",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key="DASHSCOPE_API_KEY",
        structured="json_object",
        caching="automatic",
        regions={
            "intl": "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            "cn": "https://dashscope.aliyuncs.com/compatible-mode/v1",
            "us": "https://dashscope-us.aliyuncs.com/compatible-mode/v1",
        },
        thinking=_switch({"enable_thinking": True}, {"enable_thinking": False}),
        rejects=frozenset({"reasoning_effort"}),
        target="qwen-flash",
        optimizer="qwen3-max",
    ),
    "minimax": Preset(
        "MiniMax",
        base_url="https://api.minimax.io/v1",
        key="MINIMAX_API_KEY",
        limit_field="max_completion_tokens",
        structured="none",
        caching="automatic",
        regions={"intl": "https://api.minimax.io/v1", "cn": "https://api.minimaxi.com/v1"},
        thinking=_ADAPTIVE,
        # Otherwise its thoughts stand in the answer.
        body={"reasoning_split": True},
        rejects=frozenset({"reasoning_effort"}),
        carried=("reasoning_details",),
        target="MiniMax-M2.5",
        optimizer="MiniMax-M3",
    ),
    "openrouter": Preset(
        "OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key="OPENROUTER_API_KEY",
        caching="automatic",
        thinking=_switch({"reasoning": {"enabled": True}}, {"reasoning": {"enabled": False}}),
        carried=("reasoning_details",),
        target="qwen/qwen3-32b",
        optimizer="anthropic/claude-opus-4.6",
    ),
    "groq": Preset(
        "Groq",
        base_url="https://api.groq.com/openai/v1",
        key="GROQ_API_KEY",
        limit_field="max_completion_tokens",
        caching="automatic",
        target="openai/gpt-oss-20b",
        optimizer="openai/gpt-oss-120b",
    ),
    "deepseek": Preset(
        "DeepSeek",
        base_url="https://api.deepseek.com/v1",
        key="DEEPSEEK_API_KEY",
        structured="json_object",
        images=False,
        caching="automatic",
        thinking=_TYPE,
        carried=("reasoning_content",),
        target="deepseek-v4-flash",
        optimizer="deepseek-v4-pro",
    ),
    "mistral": Preset(
        "Mistral",
        base_url="https://api.mistral.ai/v1",
        key="MISTRAL_API_KEY",
        target="mistral-small-latest",
        optimizer="mistral-large-latest",
    ),
    "together": Preset(
        "Together",
        base_url="https://api.together.xyz/v1",
        key="TOGETHER_API_KEY",
        target="openai/gpt-oss-20b",
        optimizer="Qwen/Qwen3-235B-A22B-Instruct-2507-tput",
    ),
}
_SERVED: dict[ProviderName, Preset] = {
    "ollama": Preset(
        "Ollama",
        base_url="http://localhost:11434/v1",
        key="OLLAMA_API_KEY",
        key_optional=True,
        caching="server",
        thinking={False: {"reasoning_effort": "none"}},
        target="qwen3:8b",
        optimizer="gpt-oss:20b",
    ),
    "vllm": Preset(
        "vLLM",
        base_url="http://localhost:8000/v1",
        key="VLLM_API_KEY",
        key_optional=True,
        limit_field="max_completion_tokens",
        caching="server",
        thinking=_TEMPLATE,
        target="Qwen/Qwen3-8B",
        optimizer="Qwen/Qwen3-32B",
    ),
    "llamacpp": Preset(
        "llama.cpp",
        base_url="http://localhost:8080/v1",
        key="LLAMA_API_KEY",
        key_optional=True,
        caching="server",
        thinking=_TEMPLATE,
        target="default",
        optimizer="default",
    ),
    "litellm": Preset(
        "LiteLLM proxy",
        base_url="http://localhost:4000/v1",
        key="LITELLM_API_KEY",
        key_optional=True,
        target="small",
        optimizer="large",
    ),
    "compatible": Preset(
        "any compatible server", limit_field="max_completion_tokens", target="m", optimizer="m"
    ),
}
_PROGRAMS: dict[ProviderName, Preset] = {
    "copilot": Preset(
        "GitHub Copilot CLI",
        protocol="command",
        structured="none",
        tools=False,
        # It reads the prompt from standard input only if it is given none with -p. An empty list of
        # tools would be none given, and all of them be offered: no tool has the name `none`.
        program=(
            *("copilot", "-s", "--no-ask-user", "--no-color", "--no-custom-instructions"),
            *("--disable-builtin-mcps", "--available-tools=none", "--model", "{model}"),
        ),
        variables=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        images=False,
        target="claude-haiku-4.5",
        optimizer="gpt-5.5",
    ),
    "claude-code": Preset(
        "Claude Code",
        protocol="command",
        structured="none",
        tools=False,
        # The project is an empty folder; the user's own settings must not colour the answers.
        program=(
            *("claude", "-p", "--output-format", "text", "--permission-mode", "dontAsk"),
            # A prompt's pictures are files beside it.
            *("--setting-sources", "project", "--tools", "Read", "--model", "{model}"),
        ),
        variables=("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
        target="claude-haiku-4-5",
        optimizer="claude-opus-4-6",
    ),
    "codex": Preset(
        "Codex CLI",
        protocol="command",
        structured="none",
        tools=False,
        program=(
            *("codex", "exec", "--ephemeral", "--skip-git-repo-check", "--color", "never"),
            *("--sandbox", "read-only", "-c", "approval_policy=never", "-m", "{model}", "-"),
        ),
        variables=("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME"),
        # It reads no other key from its environment.
        same_key=MappingProxyType({"CODEX_API_KEY": "OPENAI_API_KEY"}),
        target="gpt-5.4-mini",
        optimizer="gpt-5.5",
    ),
    "cursor": Preset(
        "Cursor CLI",
        protocol="command",
        structured="none",
        tools=False,
        program=(
            *("cursor-agent", "-p", "--output-format", "text", "--trust", "--mode", "ask"),
            *("--sandbox", "enabled", "--model", "{model}"),
        ),
        variables=("CURSOR_API_KEY",),
        target="composer-2.5",
        optimizer="composer-2.5",
    ),
    "command": Preset("any program", protocol="command", structured="none", tools=False),
    "simulated": Preset(
        "no model at all",
        protocol="simulated",
        structured="none",
        tools=False,
        images=False,
        target="simulated-target",
        optimizer="simulated-optimizer",
    ),
}

#: Every provider by its name in the configuration.
PROVIDERS: Mapping[ProviderName, Preset] = MappingProxyType({**_HOSTED, **_SERVED, **_PROGRAMS})
