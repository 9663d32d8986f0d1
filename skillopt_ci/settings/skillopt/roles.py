"""SkillOpt's `model` section, with its backends and endpoints, as skillopt-ci's model roles."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from skillopt_ci.settings.node import Node
from skillopt_ci.settings.skillopt.backends import BACKENDS
from skillopt_ci.settings.skillopt.keys import given
from skillopt_ci.settings.skillopt.role_source import RoleSource, RoleTranslation

_ALIASES = MappingProxyType(
    dict.fromkeys(("", "azure", "azure-openai", "azure_openai", "openai"), "openai_chat")
    | dict.fromkeys(("compat", "openai-compatible", "openai_compatible_chat"), "openai_compatible")
    | {"claude": "claude_chat", "anthropic": "claude_chat", "codex": "codex_exec"}
    | {"cursor": "cursor_exec", "cursor_agent": "cursor_exec", "copilot": "copilot_chat"}
    | {"copilot_cli": "copilot_chat", "github_copilot": "copilot_chat"}
    | {"qwen": "qwen_chat", "minimax": "minimax_chat"}
)
_FOR_BOTH_ROLES = ("openai_compatible", "claude_chat", "copilot_chat", "codex_exec")
_CALL_LIMITS = MappingProxyType(
    {
        "max_completion_tokens": "max_output_tokens",
        "exec_timeout": "timeout",
        "workers": "max_concurrency",
    }
)


def translate_role(
    role: str, model: Node, environ: Mapping[str, str], calls: Node | None = None
) -> RoleTranslation:
    """Translate ``target`` or ``optimizer``; one that is a mapping already stays as it is.

    ``environ`` tells which keys there are. ``calls`` is a section that says how many calls may be
    under way, how long and how large.
    """
    source = RoleSource(role, model, environ)
    current = source.get(role)
    if current and current.entries:
        return RoleTranslation(current)
    found = _by_backend(source)
    is_command = "command" in found.node.entries
    limits = {
        own: calls.entries[name]
        for name, own in _CALL_LIMITS.items()
        if calls and given(calls.entries.get(name))
        if not (is_command and own == "max_output_tokens")  # a command has no such limit
    }
    return replace(found, node=Node({**found.node.entries, **limits}, found.node.mark))


def _by_backend(source: RoleSource) -> RoleTranslation:
    backend = _backend(source)
    if backend in BACKENDS:
        return BACKENDS[backend](source)
    problem = source.remark(
        f"the backend {backend!r} is not available; give a mapping instead: provider: openai with "
        "model, base_url and api_key_env, or provider: command with a command that reads the "
        "prompt on standard input and prints the answer"
    )
    return RoleTranslation(source.served({"model": source.chosen()}), problems=(problem,))


def _backend(source: RoleSource) -> str:
    own = source.text(f"{source.role}_backend")
    own = _ALIASES.get(own, own)
    if own != "openai_chat":
        return own
    label = source.text("backend")
    label = _ALIASES.get(label, label)
    return label if source.role == "target" or label in _FOR_BOTH_ROLES else "openai_chat"
