"""SkillOpt's backends that are coding agents on the command line, as commands of a model role.

Each reads the prompt on standard input and prints its answer, in an empty folder of its own.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from skillopt_ci.settings.node import Node
from skillopt_ci.settings.providers import PROVIDERS
from skillopt_ci.settings.skillopt.role_source import RoleSource, RoleTranslation, number

_CLAUDE_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN")
_CODEX_KEYS = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME")
_CLAUDE_EFFORTS = MappingProxyType(
    {effort: effort for effort in ("low", "medium", "high", "max")} | {"xhigh": "max"}
)
_NO_EFFORT = ("none", "off")
_THINKING_TOKENS = "16384"


def _claude_chat(source: RoleSource) -> RoleTranslation:
    return _claude(source, source.text("reasoning_effort"))


def _claude_code(source: RoleSource) -> RoleTranslation:
    effort = source.text("claude_code_exec_effort") or "medium"
    thinking = source.text("claude_code_exec_max_thinking_tokens") or _THINKING_TOKENS
    # Whatever else it would like to use is denied, for there is nobody to ask.
    tools = ("--tools", "Read,Bash", "--allowedTools", "Read,Bash")
    return _claude(source, effort, *tools, "--max-thinking-tokens", thinking)


def _claude(source: RoleSource, effort: str, *more: str) -> RoleTranslation:
    model = source.chosen_or("claude-sonnet-4-6")
    # The project is an empty folder; the user's own settings must not colour the answers.
    alone = ("--permission-mode", "dontAsk", "--setting-sources", "project")
    wanted = "" if effort in ("", *_NO_EFFORT) else _CLAUDE_EFFORTS.get(effort, "medium")
    return _command(
        source,
        model,
        _CLAUDE_KEYS,
        *(source.text("claude_code_exec_path") or "claude", "-p", "--output-format", "text"),
        *(*alone, "--model", str(model.value)),
        *(("--effort", wanted) if wanted else ()),
        *more,
    )


def _codex(source: RoleSource) -> RoleTranslation:
    model = source.chosen()
    # An optimizer answers from its prompt alone.
    sandbox = "workspace-write" if source.role == "target" else "read-only"
    profile = source.text("codex_exec_profile")
    return _command(
        source,
        model,
        _CODEX_KEYS,
        *(source.text("codex_exec_path") or "codex", "exec", "--ephemeral"),
        *("--skip-git-repo-check", "--color", "never"),
        *("--sandbox", source.text("codex_exec_sandbox") or sandbox),
        *(("-p", profile) if profile else ()),
        *(part for setting in _codex_settings(source) for part in ("-c", setting)),
        *("-m", str(model.value), "-"),
    )


def _codex_settings(source: RoleSource) -> list[str]:
    effort = source.text("codex_exec_reasoning_effort", "reasoning_effort")
    network, search = (source.get(f"codex_exec_{key}") for key in ("network_access", "web_search"))
    settings = {
        "approval_policy": source.text("codex_exec_approval_policy") or "never",
        "model_reasoning_effort": "xhigh" if effort == "max" else effort,
        "sandbox_workspace_write.network_access": network and str(bool(network.value)).lower(),
        "web_search": search and ("live" if search.value else "disabled"),
    }
    return [f"{key}={value}" for key, value in settings.items() if value]


def _cursor(source: RoleSource) -> RoleTranslation:
    model = source.chosen_or("composer-2.5")
    return _command(
        source,
        model,
        ("CURSOR_API_KEY",),
        *(source.text("cursor_exec_path") or "cursor-agent", "-p", "--output-format", "text"),
        *("--trust", "--mode", "ask", "--sandbox", source.text("cursor_exec_sandbox") or "enabled"),
        *("--model", str(model.value)),
    )


def _copilot(source: RoleSource) -> RoleTranslation:
    chosen = source.get(f"copilot_chat_{source.role}_model") or source.chosen_or("gpt-5.5")
    usual = list(PROVIDERS["copilot"].program)
    usual[0] = source.text("copilot_exec_path") or usual[0]
    return _agent(source, "copilot", chosen, tuple(usual))


def _copilot_agent(source: RoleSource) -> RoleTranslation:
    """Copilot at work, with the tools that it may use without asking, as nobody is there to ask."""
    chosen = source.get("copilot_chat_target_model") or source.chosen_or("gpt-5.5")
    free = source.text("copilot_exec_allow_all_tools").lower() in ("true", "1", "yes")
    return _agent(
        source,
        "copilot",
        chosen,
        (
            *(source.text("copilot_exec_path") or "copilot", "-s", "--no-ask-user", "--no-color"),
            *("--no-custom-instructions", "--disable-builtin-mcps"),
            *(("--allow-all-tools",) if free else ()),
            *("--model", "{model}"),
        ),
    )


def _agent(
    source: RoleSource, provider: str, model: Node, arguments: tuple[str, ...]
) -> RoleTranslation:
    fields = {"provider": Node(provider, source.mark), "model": model}
    fields["timeout"] = number(source.get("copilot_chat_timeout"), source.mark, 600)
    fields["command"] = _texts(source, arguments)
    return RoleTranslation(Node(fields, source.mark))


def _command(
    source: RoleSource, model: Node, variables: tuple[str, ...], *arguments: str
) -> RoleTranslation:
    fields = {
        "provider": Node("command", source.mark),
        "model": model,
        "command": _texts(source, arguments),
        "env": _texts(source, variables),
    }
    return RoleTranslation(Node(fields, source.mark))


def _texts(source: RoleSource, texts: tuple[str, ...]) -> Node:
    return Node(tuple(Node(text, source.mark) for text in texts), source.mark)


#: The translation of each such backend, by SkillOpt's name for it.
PROGRAMS: Mapping[str, Callable[[RoleSource], RoleTranslation]] = MappingProxyType(
    {
        "claude_chat": _claude_chat,
        "claude_code_exec": _claude_code,
        "codex_exec": _codex,
        "cursor_exec": _cursor,
        "copilot_chat": _copilot,
        "copilot_exec": _copilot_agent,
    }
)
