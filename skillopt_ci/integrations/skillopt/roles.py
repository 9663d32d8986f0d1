"""Translate SkillOpt's backends into our model roles: servers, and programs with arguments."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from skillopt_ci.config.models import PROVIDERS
from skillopt_ci.config.yaml import Mark, Node, Problem, parse_yaml

SERVER_KEYS = "base_url temperature max_tokens timeout_seconds"
AZURE_KEYS = "endpoint api_version auth_mode ad_scope managed_identity_client_id"
CALL_DEFAULTS = {"exec_timeout": 120, "max_completion_tokens": 16_384}


def spellings(**words: str) -> dict[str, str]:
    """Map our word, the argument's name, and SkillOpt's ``words`` (with spaces between) to ours."""
    return {word: ours for ours, said in words.items() for word in (ours, *said.split())}


def prefixed(**keys: str) -> tuple[str, ...]:
    return tuple(f"{prefix}_{key}" for prefix, names in keys.items() for key in names.split())


#: Keys of `model` that apply to both roles, or to one with its name as prefix.
_EITHER = prefixed(
    azure_openai=AZURE_KEYS,
    openai_compatible=SERVER_KEYS,
    qwen_chat=f"{SERVER_KEYS} enable_thinking thinking_mode use_max_completion_tokens",
)
#: The supported keys of `model`.
MODEL_KEYS = (
    *("backend", "optimizer", "target", "judge", "optimizer_backend", "target_backend"),
    *("reasoning_effort", *_EITHER),
    *(f"{role}_{key}" for role in ("optimizer", "target") for key in _EITHER),
    *prefixed(
        azure="endpoint api_version",
        claude_code_exec="path effort max_thinking_tokens",
        codex="sandbox_mode",
        codex_exec="path sandbox profile reasoning_effort network_access web_search "
        "approval_policy",
        copilot_chat="optimizer_model target_model timeout",
        copilot_exec="path allow_all_tools",
        cursor_exec="path sandbox",
        minimax=f"{SERVER_KEYS} region model enable_thinking",
    ),
)
#: Environment variables that are not simply their keys in capitals.
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "optimizer": ("OPTIMIZER_DEPLOYMENT",),
    "target": ("TARGET_DEPLOYMENT",),
    "codex_exec_path": ("CODEX_EXEC_PATH", "CODEX_CLI_BIN"),
    "codex_exec_profile": ("CODEX_EXEC_PROFILE", "CODEX_PROFILE"),
    "claude_code_exec_path": ("CLAUDE_CODE_EXEC_PATH", "CLAUDE_CLI_BIN"),
    # None: variables with such short names could belong to other programs.
    **dict.fromkeys(("backend", "judge", "reasoning_effort", "azure_endpoint"), ()),
    **{
        f"{role}_azure_openai_{key}": (
            f"{role}_azure_openai_{key}".upper(),
            f"AZURE_OPENAI_{role}_{key}".upper(),
        )
        for role in ("optimizer", "target")
        for key in AZURE_KEYS.split()
    },
}
_BACKEND_WORDS = spellings(
    openai_chat="azure azure-openai azure_openai openai",
    openai_compatible="compat openai-compatible openai_compatible_chat",
    claude_chat="claude anthropic",
    codex_exec="codex",
    cursor_exec="cursor cursor_agent",
    copilot_chat="copilot copilot_cli github_copilot",
    qwen_chat="qwen",
    minimax_chat="minimax",
)
_SIGN_IN_WORDS = spellings(key="api_key", managed_identity="aad azure_ad")
_SWITCHES = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_EFFORTS = spellings(low="", high="", max="xhigh") | dict.fromkeys(("", "none", "off"), "")
_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
_DEFAULT_MODEL = "gpt-5.5"
#: Model names that count as unset for backends without OpenAI's models.
_PLACEHOLDERS = ("gpt-5.4", _DEFAULT_MODEL)
#: Values that SkillOpt's base file states for everybody; others, if also stated, count.
_PREFILLED = ("2024-12-01-preview", "https://cognitiveservices.azure.com/.default", "8000")
_FOR_BOTH_ROLES = ("openai_compatible", "claude_chat", "copilot_chat", "codex_exec")
_Fields = dict[str, Any]


def as_node(value: Any, mark: Mark) -> Node:
    """``value`` as a node, without keys that are None; parts without a position get ``mark``."""
    match value:
        case Node():
            return value
        case dict():
            given = {key: child for key, child in value.items() if child is not None}
            return Node({key: as_node(child, mark) for key, child in given.items()}, mark)
        case tuple():
            return Node(tuple(as_node(child, mark) for child in value), mark)
    return Node(value, mark)


def model_roles(
    stated: Mapping[str, Node],
    env: Mapping[str, Node],
    mark: Mark,
    environ: Mapping[str, str],
    problems: list[Problem],
    warnings: list[Problem],
) -> dict[str, Node]:
    """The roles in our form; variables in ``environ`` fill in keys missing from ``stated``."""
    settings = dict[str, Node]()
    for key in MODEL_KEYS:
        variables = _VARIABLES.get(key, (key.upper(),))
        if value := next((environ[name] for name in variables if environ.get(name)), None):
            settings[key] = Node(value, mark)
    settings |= stated
    found = {key: node for key, node in stated.items() if key == "judge"}
    for name in ("target", "optimizer"):
        place = stated[name].mark if name in stated else mark
        role = _Role(name, settings, stated.keys(), place, environ, problems, warnings)
        found[name] = role.translated(env if name == "target" else {})
    return found


@dataclass(frozen=True, slots=True)
class _Role:
    name: str
    settings: Mapping[str, Node]
    stated: Collection[str]
    mark: Mark
    environ: Mapping[str, str]
    problems: list[Problem]
    warnings: list[Problem]

    def translated(self, calls: Mapping[str, Node]) -> Node:
        if (current := self.settings.get(self.name)) and current.entries:
            return current
        result = _BACKENDS.get(self.backend, _unavailable)(self)
        limits = {"exec_timeout": "timeout", "workers": "max_concurrency"}
        if "command" not in result:  # commands have no token limit
            limits["max_completion_tokens"] = "max_output_tokens"
        if self.name == "target":
            usual = {limits[key]: one for key, one in CALL_DEFAULTS.items() if key in limits}
            result = {**usual, **result}
        result |= {own: calls[key] for key, own in limits.items() if key in calls}
        return as_node(result, self.mark)

    @property
    def backend(self) -> str:
        words = (
            str(self.settings[key].value).strip().lower() if key in self.settings else "openai"
            for key in (f"{self.name}_backend", "backend")
        )
        own, shared = (_BACKEND_WORDS.get(word, word) for word in words)
        for_us = self.name == "target" or shared in _FOR_BOTH_ROLES
        return shared if own == "openai_chat" and for_us else own

    def get(self, *keys: str) -> Node | None:
        names = (name for key in keys for name in (f"{self.name}_{key}", key))
        found = (self.settings[name] for name in names if name in self.settings)
        return min(found, key=lambda one: one.value in _PREFILLED, default=None)

    def text(self, *keys: str, default: str = "") -> str:
        return str(node.value) if (node := self.get(*keys)) else default

    def number(self, key: str, default: float | None) -> Node | float | None:
        """A number, perhaps written as text; None for `none`, `off`, `false` and `null`."""
        node = self.get(key)
        if node is None or (node.value in _PREFILLED and key.endswith("_max_tokens")):
            return default
        if str(node.value).lower() in ("none", "off", "false", "null"):
            return replace(node, value=None)
        return parse_yaml(str(node.value), node.mark)

    def switch(self, key: str) -> bool | None:
        """Whether ``key`` is on, in any of SkillOpt's words; None if unset."""
        return _SWITCHES.get(self.choice(key, _SWITCHES, ""))

    def choice(self, key: str, known: Collection[str], default: str) -> str:
        word = self.text(key, default=default)
        if word == default or word.lower() in known:
            return word.lower()
        name = next(one for one in (f"{self.name}_{key}", key) if one in self.settings)
        variable = "" if name in self.stated else f" in the variable {name.upper()}"
        text = f"{word!r}{variable} is not one of {', '.join(known)}"
        self.problems.append(Problem(self.settings[name].mark, f"model.{name}", text))
        return default

    def chosen(self, default: str = _DEFAULT_MODEL) -> Node:
        """The model's name; ``default`` if it is missing or a placeholder."""
        node = self.settings.get(self.name)
        if node is None or (default != _DEFAULT_MODEL and node.value in _PLACEHOLDERS):
            return Node(default, self.mark)
        return node

    def tell(self, problems: list[Problem], text: str) -> None:
        problems.append(Problem(self.mark, f"model.{self.name}", text))


def _unavailable(role: _Role) -> _Fields:
    role.tell(
        role.problems,
        f"the backend {role.backend!r} is not available; give a mapping instead: provider: "
        "openai with model, base_url and api_key_env, or provider: command with a command that "
        "reads the prompt on standard input and prints the answer",
    )
    return {"provider": "openai", "model": role.chosen()}


def _command(model: Node, env: str, *command: str) -> _Fields:
    return {"provider": "command", "model": model, "command": command, "env": tuple(env.split())}


def _options(*options: tuple[str, str]) -> list[str]:
    return [word for option, value in options if value for word in (option, value)]


def _claude(role: _Role) -> _Fields:
    model, effort = role.chosen("claude-sonnet-4-6"), role.text("reasoning_effort")
    tools: tuple[str, ...] = ()
    if role.backend == "claude_code_exec":
        effort = role.text("claude_code_exec_effort", default="medium")
        thinking = role.text("claude_code_exec_max_thinking_tokens", default="16384")
        # Other tools are denied, since nobody is there to approve them.
        tools = (
            *("--tools", "Read,Bash", "--allowedTools", "Read,Bash"),
            *("--max-thinking-tokens", thinking),
        )
    return _command(
        model,
        "ANTHROPIC_API_KEY ANTHROPIC_BASE_URL CLAUDE_CODE_OAUTH_TOKEN",
        role.text("claude_code_exec_path", default="claude"),
        *("-p", "--output-format", "text"),
        # The project is an empty folder; the user's own settings must not affect the answers.
        *("--permission-mode", "dontAsk", "--setting-sources", "project"),
        *_options(("--model", str(model.value)), ("--effort", _EFFORTS.get(effort, "medium"))),
        *tools,
    )


def _codex(role: _Role) -> _Fields:
    model = role.chosen()
    if role.name == "target":
        sandbox = role.choice("codex_exec_sandbox", _SANDBOXES, "workspace-write")
    else:  # answers from its prompt alone, and has its own variable
        sandbox = role.choice("codex_sandbox_mode", _SANDBOXES, "read-only")
    effort = role.text("codex_exec_reasoning_effort", "reasoning_effort")
    network, search = map(role.switch, ("codex_exec_network_access", "codex_exec_web_search"))
    settings = {
        "approval_policy": role.text("codex_exec_approval_policy", default="never"),
        "model_reasoning_effort": "xhigh" if effort == "max" else effort,
        "sandbox_workspace_write.network_access": "" if network is None else str(network).lower(),
        "web_search": {None: "", True: "live", False: "disabled"}[search],
    }
    given = [f"{key}={value}" for key, value in settings.items() if value]
    return _command(
        model,
        "OPENAI_API_KEY CODEX_API_KEY CODEX_HOME",
        role.text("codex_exec_path", default="codex"),
        *("exec", "--ephemeral", "--skip-git-repo-check", "--color", "never"),
        *_options(("--sandbox", sandbox), ("-p", role.text("codex_exec_profile"))),
        *_options(*(("-c", setting) for setting in given), ("-m", str(model.value))),
        "-",
    )


def _cursor(role: _Role) -> _Fields:
    model = role.chosen("composer-2.5")
    return _command(
        model,
        "CURSOR_API_KEY",
        role.text("cursor_exec_path", default="cursor-agent"),
        *("-p", "--output-format", "text", "--trust", "--mode", "ask"),
        *("--sandbox", role.choice("cursor_exec_sandbox", ("enabled", "disabled"), "enabled")),
        *("--model", str(model.value)),
    )


def _copilot(role: _Role) -> _Fields:
    name, (program, *arguments) = role.name, PROVIDERS["copilot"].program
    if role.backend == "copilot_exec":  # as an agent, with tools allowed without asking
        free = ("--allow-all-tools",) if role.switch("copilot_exec_allow_all_tools") else ()
        arguments = [
            *("-s", "--no-ask-user", "--no-color", "--no-custom-instructions"),
            *("--disable-builtin-mcps", *free, "--model", "{model}"),
        ]
        name, program = "target", "copilot"
    return {
        "provider": "copilot",
        "model": role.get(f"copilot_chat_{name}_model") or role.chosen(),
        "timeout": role.number("copilot_chat_timeout", 600),
        "command": (role.text("copilot_exec_path", default=program), *arguments),
    }


def _openai(role: _Role) -> _Fields:
    named = role.settings.get(f"{role.name}_azure_openai_endpoint")
    endpoint = named or role.get("azure_openai_endpoint", "azure_endpoint")
    result: _Fields = {"model": role.chosen(), "reasoning_effort": role.get("reasoning_effort")}
    if endpoint is None:
        role.tell(
            role.warnings,
            "there is neither azure_openai_endpoint nor AZURE_OPENAI_ENDPOINT, so OpenAI "
            "itself is called with OPENAI_API_KEY",
        )
        return {**result, "provider": "openai", "api_key_env": "OPENAI_API_KEY"}
    address = str(endpoint.value).rstrip("/")
    variable = f"{role.name.upper()}_AZURE_OPENAI_API_KEY" if named else "AZURE_OPENAI_API_KEY"
    result["base_url"] = replace(endpoint, value=address)
    key = Node(variable, endpoint.mark)
    has_key = bool(role.environ.get(variable))
    # If no way to sign in is given, assume a key if there is one, else the Azure CLI.
    usual = "key" if has_key else "azure_cli"
    word = role.text("azure_openai_auth_mode", default=usual).strip().lower()
    if word in ("openai_compatible", "compat", "openai"):
        keyless = address.startswith("http://") and not has_key
        return {**result, "api_key_env": None if keyless else key, "provider": "openai"}
    auth = _SIGN_IN_WORDS.get(word, word)
    stated = role.get("azure_openai_auth_mode") or endpoint
    azure = {
        "auth": Node(auth, stated.mark),
        # The v1 URL has no versions.
        "api_version": None
        if address.endswith("/v1")
        else role.get("azure_openai_api_version", "azure_api_version"),
        "scope": role.get("azure_openai_ad_scope"),
        "client_id": role.get("azure_openai_managed_identity_client_id"),
    }
    result |= {"provider": "azure", "azure": as_node(azure, endpoint.mark)}
    return {**result, "api_key_env": key if auth == "key" else None}


def _served(
    role: _Role, prefix: str, temperature: float | None, *, keyless: bool = False, **fields: Any
) -> _Fields:
    keys = [f"{name}_api_key".upper() for name in (f"{role.name}_{prefix}", prefix)]
    # SkillOpt's usual limit would cut off the optimizer's merges and whole documents
    usual = 8000 if role.name == "target" else None
    return {
        **fields,
        "api_key_env": next(filter(role.environ.get, keys), None if keyless else keys[-1]),
        "temperature": role.number(f"{prefix}_temperature", temperature),
        "max_output_tokens": role.number(f"{prefix}_max_tokens", usual),
        "timeout": role.number(f"{prefix}_timeout_seconds", 300),
    }


def _compatible(role: _Role) -> _Fields:
    if (url := role.get("openai_compatible_base_url")) is None:
        role.tell(
            role.warnings,
            "OPENAI_COMPATIBLE_BASE_URL is not set, so https://api.openai.com/v1 is called",
        )
    return _served(
        *(role, "openai_compatible", None),
        keyless=role.text("openai_compatible_base_url").startswith("http://"),
        provider="compatible",
        model=role.chosen(),
        base_url=url or "https://api.openai.com/v1",
        token_limit_field="max_tokens",  # noqa: S106 - no password
    )


def _qwen(role: _Role) -> _Fields:
    newer = role.switch("qwen_chat_use_max_completion_tokens")
    mode = role.choice("qwen_chat_thinking_mode", ("server_default", "enabled", "disabled"), "")
    if not mode and role.switch("qwen_chat_enable_thinking"):
        mode = "enabled"  # false left the server's default
    return _served(
        *(role, "qwen_chat", 0.7),
        provider="vllm",
        model=role.chosen("Qwen/Qwen3.5-4B"),
        base_url=role.get("qwen_chat_base_url") or "http://localhost:8000/v1",
        token_limit_field="max_completion_tokens" if newer else "max_tokens",
        keyless=True,  # a self-hosted server needs none
        thinking={"enabled": True, "disabled": False}.get(mode),
    )


def _minimax(role: _Role) -> _Fields:
    url, region = role.get("minimax_base_url"), role.get("minimax_region")
    if region is not None:
        names = {"cn_zh": "cn", "global_en": "intl"}
        region = replace(region, value=names.get(str(region.value), region.value))
    return _served(
        *(role, "minimax", 0.7),
        provider="minimax",
        model=role.get("minimax_model") or role.chosen("MiniMax-M3"),
        base_url=url,
        region=None if url else region,
        thinking=role.switch("minimax_enable_thinking"),
    )


_BACKENDS: Mapping[str, Callable[[_Role], _Fields]] = {
    "claude_chat": _claude,
    "claude_code_exec": _claude,
    "codex_exec": _codex,
    "copilot_chat": _copilot,
    "copilot_exec": _copilot,
    "cursor_exec": _cursor,
    "minimax_chat": _minimax,
    "openai_chat": _openai,
    "openai_compatible": _compatible,
    "qwen_chat": _qwen,
}
