"""Each of SkillOpt's backends as the fields of a model role."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType

from skillopt_ci.config.config import Config
from skillopt_ci.config.loading import Translation
from skillopt_ci.config.providers import PROVIDERS
from skillopt_ci.config.reference import fields, homes, sections
from skillopt_ci.config.yaml import Mark, Node, Problem, Scalar, merge, nearest, nested, without

# The keys of SkillOpt's configuration files: where they belong and which mean something here.

#: Sections that have the same keys in both forms.
SHARED = ("train", "gradient", "optimizer", "evaluation")

_FLAT_NAMES = MappingProxyType(
    {
        "model_backend": ("model", "backend"),
        "optimizer_model": ("model", "optimizer"),
        "target_model": ("model", "target"),
        "edit_budget": ("optimizer", "learning_rate"),
        "min_edit_budget": ("optimizer", "min_learning_rate"),
        "meta_edit_budget": ("optimizer", "meta_learning_rate"),
        "env": ("env", "name"),
        "sandbox": ("model", "sandbox"),
    }
)
#: Keys that may stand for both roles, or with a role in front for that one.
ROLE_KEYS = (
    *("azure_openai_endpoint", "azure_openai_api_version", "azure_openai_auth_mode"),
    *("azure_openai_ad_scope", "azure_openai_managed_identity_client_id"),
    *("openai_compatible_base_url", "openai_compatible_temperature"),
    *("openai_compatible_max_tokens", "openai_compatible_timeout_seconds"),
    *("qwen_chat_base_url", "qwen_chat_temperature", "qwen_chat_timeout_seconds"),
    *("qwen_chat_max_tokens", "qwen_chat_enable_thinking", "qwen_chat_thinking_mode"),
    "qwen_chat_use_max_completion_tokens",
)
#: The keys of the `model` section that mean something here.
MODEL_KEYS = frozenset(
    {"backend", "optimizer", "target", "judge", "optimizer_backend", "target_backend"}
    | {
        "reasoning_effort",
        "azure_endpoint",
        "azure_api_version",
        "claude_code_exec_path",
        "claude_code_exec_effort",
    }
    | {"claude_code_exec_max_thinking_tokens", "cursor_exec_path", "cursor_exec_sandbox"}
    | {"codex_exec_path", "codex_exec_sandbox", "codex_exec_profile"}
    | {"codex_exec_reasoning_effort", "codex_exec_network_access", "codex_exec_web_search"}
    | {"codex_exec_approval_policy", "copilot_exec_path", "copilot_exec_allow_all_tools"}
    | {"copilot_chat_optimizer_model", "copilot_chat_target_model", "copilot_chat_timeout"}
    | {role + key for role in ("", "optimizer_", "target_") for key in ROLE_KEYS}
    | {"minimax_region", "minimax_base_url", "minimax_model", "minimax_temperature"}
    | {"minimax_max_tokens", "minimax_enable_thinking", "minimax_timeout_seconds"}
)
_FLAT_MODEL_KEY = re.compile(
    r"(optimizer_|target_)?(azure_|qwen_chat_|minimax_|openai_compatible_|backend$)"
    r"|(codex|claude_code|cursor|copilot|rewrite)_|reasoning_effort$"
)
_ENV_KEYS = (
    *("name", "skill_init", "out_root", "split_mode", "split_ratio", "split_seed", "split_dir"),
    *("data_path", "limit", "workers", "exec_timeout", "max_completion_tokens"),
)
#: Keys without a counterpart, each with the values that say what happens here anyway.
_WITHOUT_COUNTERPART: Mapping[str, Mapping[str, tuple[Scalar, ...]]] = MappingProxyType(
    {
        "train": {"steps_per_epoch": ()},
        "gradient": {"max_analyst_rounds": ()},
        "optimizer": {"meta_learning_rate": ()},
        "evaluation": {},
        "env": {"max_turns": (1,)},
        "model": {
            "codex_exec_use_sdk": (False, "auto", "cli"),
            "claude_code_exec_use_sdk": (False, "auto", "cli"),
        },
    }
)
_SURELY_MISSPELT = 0.85


def given(node: Node | None) -> bool:
    """Whether a key is set at all: SkillOpt's files spell out unset keys as null or empty text."""
    return node is not None and node.value is not None and node.value != ""


def flat_home(name: str) -> tuple[str, str] | None:
    """The section and key that a flat name stands for; None for a name that is not SkillOpt's."""
    if name in _FLAT_NAMES:
        return _FLAT_NAMES[name]
    if _FLAT_MODEL_KEY.match(name):
        return ("model", name)
    for section in SHARED:
        if name in section_keys(section) or name in _WITHOUT_COUNTERPART[section]:
            return (section, name)
    return ("env", name) if name in _ENV_KEYS else None


def section_keys(section: str) -> tuple[str, ...]:
    """The keys of a section that mean something here."""
    if section == "env":
        return _ENV_KEYS
    if section == "model":
        return tuple(MODEL_KEYS)
    (model,) = sections(fields(Config)[section].annotation)
    return tuple(fields(model))


def ignored(tree: Node) -> Iterator[Problem]:
    """A remark on every key that is set, has no effect here and asks for something else."""
    for section, name, node in _keys(tree):
        usual = _WITHOUT_COUNTERPART[section].get(name, ())
        if name in section_keys(section) or _is_secret(name) or node.value in usual:
            continue
        text = f"has no meaning here and is ignored{_suggestion(section, name)}"
        yield Problem(node.mark, f"{section}.{name}", text)


def clear_keys(tree: Node) -> Iterator[Problem]:
    """A problem for every API key that stands in the file."""
    for section, name, node in _keys(tree):
        if _is_secret(name):
            variable = name.upper().replace("AZURE_API", "AZURE_OPENAI_API")
            text = (
                "a key does not belong in a file; remove the line and put the key into the "
                f"environment variable {variable}"
            )
            yield Problem(node.mark, f"{section}.{name}", text)


def _keys(tree: Node) -> Iterator[tuple[str, str, Node]]:
    for section in _WITHOUT_COUNTERPART:
        held = tree.entries.get(section)
        for name, node in held.entries.items() if held else ():
            if given(node):
                yield section, name, node


def _is_secret(name: str) -> bool:
    return name.endswith("api_key")


def _suggestion(section: str, name: str) -> str:
    if name in _WITHOUT_COUNTERPART[section] or name in section_keys(section):
        return ""
    known = (*section_keys(section), *homes(name))
    return nearest(name, known, _SURELY_MISSPELT)


# SkillOpt's `model` section as one role sees it, and what becomes of it.

_DEFAULT_MODEL = "gpt-5.5"
#: Names that stand for no choice with a backend that has none of OpenAI's models.
_PLACEHOLDERS = ("gpt-5.4", _DEFAULT_MODEL)


@dataclass(frozen=True, slots=True)
class RoleTranslation:
    """A model role in skillopt-ci's form, with what is wrong and what is doubtful about it."""

    node: Node
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class RoleSource:
    """The section as one role sees it."""

    role: str
    model: Node
    environ: Mapping[str, str]

    def get(self, *keys: str) -> Node | None:
        """The first of ``keys`` that is set; null and empty text count as not set."""
        nodes = (self.model.entries.get(key) for key in keys)
        return next((node for node in nodes if given(node)), None)

    def own(self, key: str) -> Node | None:
        """The role's own value of ``key``, else the shared one."""
        return self.get(f"{self.role}_{key}", key)

    def text(self, *keys: str) -> str:
        """The first of ``keys`` that is set, as text."""
        node = self.get(*keys)
        return str(node.value) if node else ""

    def chosen(self) -> Node:
        """The model's name, or the one that SkillOpt would take."""
        return self.get(self.role) or Node(_DEFAULT_MODEL, self.mark)

    def chosen_or(self, default: str) -> Node:
        """The model's name, or ``default`` where it is one of SkillOpt's placeholders."""
        chosen = self.chosen()
        return Node(default, self.mark) if chosen.value in _PLACEHOLDERS else chosen

    @property
    def mark(self) -> Mark:
        """Where the role is mentioned, else where the section is."""
        return (self.model.entries.get(self.role) or self.model).mark

    def remark(self, text: str) -> Problem:
        """Something to say about the role as a whole."""
        return Problem(self.mark, f"model.{self.role}", text)

    def has_variable(self, name: str) -> bool:
        """Whether the environment has a value under ``name``."""
        return bool(self.environ.get(name))

    def served(self, fields: Mapping[str, Node], provider: str = "openai") -> Node:
        """The role at ``provider``, with these fields."""
        return Node({"provider": Node(provider, self.mark), **fields}, self.mark)


def number(node: Node | None, mark: Mark, default: float | None) -> Node:
    """A number that may be written as text; `none`, `off` and `null` mean: leave it out."""
    if node is None:
        return Node(default, mark)
    if not isinstance(node.value, str):
        return node
    if node.value.lower() in ("none", "off", "null"):
        return replace(node, value=None)
    try:
        number = float(node.value)
    except ValueError:
        return node
    return replace(node, value=int(number) if number.is_integer() else number)


# SkillOpt's backends that are coding agents on the command line, as commands of a model role.

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


_PLAIN_AUTH = ("openai_compatible", "compat", "openai")
#: SkillOpt's ways to sign in to Azure, by our names.
_AUTH = MappingProxyType(
    {
        **dict.fromkeys(("api_key", "key"), "key"),
        "azure_cli": "azure_cli",
        **dict.fromkeys(("managed_identity", "aad", "azure_ad"), "managed_identity"),
    }
)


def _openai(source: RoleSource) -> RoleTranslation:
    endpoint = source.get(
        f"{source.role}_azure_openai_endpoint", "azure_openai_endpoint", "azure_endpoint"
    )
    effort = source.get("reasoning_effort")
    fields = {"reasoning_effort": effort} if effort else {}
    fields["model"] = source.chosen()
    if endpoint is None:
        fields["api_key_env"] = Node("OPENAI_API_KEY", source.mark)
        text = (
            "there is neither azure_openai_endpoint nor AZURE_OPENAI_ENDPOINT, so OpenAI itself is "
            "called with OPENAI_API_KEY"
        )
        return RoleTranslation(source.served(fields), (), (source.remark(text),))
    mode = source.own("azure_openai_auth_mode")
    if mode and mode.value in _PLAIN_AUTH:
        fields |= {"base_url": _address(endpoint), "api_key_env": _key_of(source, endpoint)}
        return RoleTranslation(source.served(fields))
    return _azure(source, fields, endpoint, mode)


def _azure(
    source: RoleSource, fields: dict[str, Node], endpoint: Node, mode: Node | None
) -> RoleTranslation:
    """The role at Azure; who states no way to sign in has a key, or else is signed in already."""
    key = _key_of(source, endpoint)
    usual = "key" if source.has_variable(str(key.value)) else "azure_cli"
    auth = _AUTH.get(str(mode.value)) if mode else usual
    version = source.own("azure_openai_api_version") or source.get("azure_api_version")
    address = _address(endpoint)
    told = {
        "auth": Node(auth or str(mode.value if mode else usual), (mode or endpoint).mark),
        # The v1 address knows no versions.
        "api_version": None if str(address.value).endswith("/v1") else version,
        "scope": source.own("azure_openai_ad_scope"),
        "client_id": source.own("azure_openai_managed_identity_client_id"),
    }
    azure = {name: node for name, node in told.items() if node is not None}
    fields |= {"base_url": address, "azure": Node(azure, endpoint.mark)}
    if auth == "key":
        fields["api_key_env"] = key
    return RoleTranslation(source.served(fields, "azure"))


def _address(endpoint: Node) -> Node:
    return Node(str(endpoint.value).rstrip("/"), endpoint.mark)


def _key_of(source: RoleSource, endpoint: Node) -> Node:
    prefix = f"{source.role.upper()}_" if source.get(f"{source.role}_azure_openai_endpoint") else ""
    return Node(f"{prefix}AZURE_OPENAI_API_KEY", endpoint.mark)


def _compatible(source: RoleSource) -> RoleTranslation:
    url = source.own("openai_compatible_base_url")
    name = "OPENAI_COMPATIBLE_API_KEY"
    own = f"{source.role.upper()}_{name}"
    fields = {
        "model": source.chosen(),
        "base_url": url or Node("https://api.openai.com/v1", source.mark),
        "api_key_env": Node(own if source.has_variable(own) else name, source.mark),
        "token_limit_field": Node("max_tokens", source.mark),
        "temperature": number(source.own("openai_compatible_temperature"), source.mark, None),
        "max_output_tokens": number(source.own("openai_compatible_max_tokens"), source.mark, 8000),
        "timeout": number(source.own("openai_compatible_timeout_seconds"), source.mark, 300),
    }
    text = "OPENAI_COMPATIBLE_BASE_URL is not set, so https://api.openai.com/v1 is called"
    warnings = () if url else (source.remark(text),)
    return RoleTranslation(source.served(fields, "compatible"), (), warnings)


def _qwen(source: RoleSource) -> RoleTranslation:
    wish = source.own("qwen_chat_thinking_mode") or source.own("qwen_chat_enable_thinking")
    newer = source.own("qwen_chat_use_max_completion_tokens")
    field = "max_completion_tokens" if newer and _is_yes(newer) else "max_tokens"
    fields = {
        "model": source.chosen_or("Qwen/Qwen3.5-4B"),
        "base_url": source.own("qwen_chat_base_url")
        or Node("http://localhost:8000/v1", source.mark),
        "token_limit_field": Node(field, source.mark),
        "temperature": number(source.own("qwen_chat_temperature"), source.mark, 0.7),
        "max_output_tokens": number(source.own("qwen_chat_max_tokens"), source.mark, 8000),
        "timeout": number(source.own("qwen_chat_timeout_seconds"), source.mark, 300),
    }
    names = (f"{source.role.upper()}_QWEN_CHAT_API_KEY", "QWEN_CHAT_API_KEY")
    # A server of one's own needs no key; only where there is one it is named.
    name = next((name for name in names if source.has_variable(name)), None)
    if name is not None:
        fields["api_key_env"] = Node(name, source.mark)
    if wish and (wish.value in {"disabled", "enabled"} or _is_yes(wish)):
        fields["thinking"] = Node(wish.value != "disabled", wish.mark)
    return RoleTranslation(source.served(fields, "vllm"))


def _minimax(source: RoleSource) -> RoleTranslation:
    fields = {
        "model": source.get("minimax_model") or source.chosen_or("MiniMax-M3"),
        "api_key_env": Node("MINIMAX_API_KEY", source.mark),
        "temperature": number(source.get("minimax_temperature"), source.mark, 0.7),
        "max_output_tokens": number(source.get("minimax_max_tokens"), source.mark, 8000),
        "timeout": number(source.get("minimax_timeout_seconds"), source.mark, 300),
    }
    region, url = source.get("minimax_region"), source.get("minimax_base_url")
    if url is not None:
        fields["base_url"] = url
    elif region is not None:
        fields["region"] = replace(region, value=_REGIONS.get(str(region.value), region.value))
    wish = source.get("minimax_enable_thinking")
    if wish is not None:
        fields["thinking"] = Node(_is_yes(wish), wish.mark)
    return RoleTranslation(source.served(fields, "minimax"))


_REGIONS = MappingProxyType({"cn_zh": "cn", "global_en": "intl"})


def _is_yes(node: Node) -> bool:
    return str(node.value).lower() in ("true", "1", "yes")


#: The translation of each backend, by SkillOpt's name for it.
BACKENDS: Mapping[str, Callable[[RoleSource], RoleTranslation]] = MappingProxyType(
    {
        "openai_chat": _openai,
        "openai_compatible": _compatible,
        "qwen_chat": _qwen,
        "minimax_chat": _minimax,
        **PROGRAMS,
    }
)


# SkillOpt's environment variables, for keys of its `model` section that the files leave unset.

_ROLES = ("optimizer", "target")
#: Keys whose variables are not simply their names in capitals.
_OTHERWISE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "optimizer": ("OPTIMIZER_DEPLOYMENT",),
        "target": ("TARGET_DEPLOYMENT",),
        "codex_exec_path": ("CODEX_EXEC_PATH", "CODEX_CLI_BIN"),
        "codex_exec_profile": ("CODEX_EXEC_PROFILE", "CODEX_PROFILE"),
        "claude_code_exec_path": ("CLAUDE_CODE_EXEC_PATH", "CLAUDE_CLI_BIN"),
        "copilot_chat_optimizer_model": ("COPILOT_CHAT_OPTIMIZER_MODEL",),
        "copilot_chat_target_model": ("COPILOT_CHAT_TARGET_MODEL",),
        **{
            f"{role}_{key}": (f"{role}_{key}".upper(), f"AZURE_OPENAI_{role}_{rest}".upper())
            for role in _ROLES
            for key in ROLE_KEYS
            if (rest := key.removeprefix("azure_openai_")) != key
        },
    }
)
#: Keys that have no variable of their own: as short as they are, theirs could be anybody's.
_UNNAMED = frozenset({"backend", "judge", "reasoning_effort", "azure_endpoint"})


def with_environment(model: Node, environ: Mapping[str, str]) -> Node:
    """The section with what SkillOpt would take from ``environ``; what stands in a file wins."""
    found = {
        key: Node(value, model.mark)
        for key, value in _read(environ)
        if not given(model.entries.get(key))
    }
    return replace(model, value={**model.entries, **found}) if found else model


def _read(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key in sorted(MODEL_KEYS - _UNNAMED):
        names = _OTHERWISE.get(key, (key.upper(),))
        value = next((environ[name] for name in names if environ.get(name)), None)
        if value is not None:
            yield key, value


# SkillOpt's `model` section, with its backends and endpoints, as skillopt-ci's model roles.

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


# SkillOpt's keys that stand in another section here, and its other words for the same value.

#: Where a key of SkillOpt's `model` section stands here, an older spelling of it included.
_MOVED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "rewrite_max_completion_tokens": ("optimizer", "rewrite_max_completion_tokens"),
        "codex_trace_to_optimizer": ("gradient", "trace_to_optimizer"),
        **dict.fromkeys(("codex_path", "codex_cli_bin", "codex_bin"), ("model", "codex_exec_path")),
        **dict.fromkeys(("sandbox", "codex_sandbox"), ("model", "codex_exec_sandbox")),
    }
)
#: By key: the words that SkillOpt takes besides the one that both know.
_WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "skill_update_mode": {
            "edits": "patch",
            **dict.fromkeys(
                ("rewrite", "suggestions", "rewrite_suggestions"), "rewrite_from_suggestions"
            ),
            **dict.fromkeys(
                ("full_rewrite", "minibatch_full_rewrite", "skill_rewrite_minibatch"),
                "full_rewrite_minibatch",
            ),
        },
        "lr_control_mode": {
            **dict.fromkeys(("manual", "scheduler", "scheduled"), "fixed"),
            **dict.fromkeys(("auto", "optimizer"), "autonomous"),
            **dict.fromkeys(("off", "no_lr"), "none"),
        },
        "longitudinal_pair_policy": {
            **dict.fromkeys(("default", "random", "all"), "mixed"),
            **dict.fromkeys(("change", "delta", "10_01", "01_10"), "changed"),
            **dict.fromkeys(("stable", "same", "00_11"), "unchanged"),
        },
    }
)


def in_place(layer: Node) -> Node:
    """One file with such keys where they belong; the usual spelling in the same file wins."""
    model = layer.entries.get("model")
    moved = {key: node for key, node in model.entries.items() if key in _MOVED} if model else {}
    if model is None or not moved:
        return layer
    rest = replace(layer, value={**layer.entries, "model": without(model, *moved)})
    # Of several spellings the first one listed wins.
    trees = [nested(home, moved[key]) for key, home in _MOVED.items() if key in moved]
    return reduce(merge, [*reversed(trees), rest])


def in_our_words(key: str, node: Node) -> Node:
    """The node with its value as it is spelt here."""
    if key == "leading_words" and isinstance(node.value, str):
        words = [word.strip() for word in node.value.split(",")]
        return replace(node, value=tuple(Node(word, node.mark) for word in words if word))
    if key == "lr_control_mode" and node.value is False:
        return replace(node, value="none")  # YAML reads a bare `off` as false
    word = _WORDS.get(key, {}).get(str(node.value))
    return replace(node, value=word) if word else node


# Recognise SkillOpt's form and turn it into skillopt-ci's own.

_OWN = frozenset({"run", "skill", "tasks"})
_LONGEST_RUN = 64


def translated(
    layers: Sequence[Node], overrides: Sequence[Node], environ: Mapping[str, str]
) -> Translation | None:
    """The merged configuration in skillopt-ci's own form; None if the files are not SkillOpt's.

    What the files leave unset SkillOpt's variables in ``environ`` may say.
    """
    if not is_skillopt(layers):
        return None
    return translate(reduce(merge, map(structured, [*layers, *overrides])), environ)


def is_skillopt(layers: Sequence[Node]) -> bool:
    """Whether the files of a chain are in SkillOpt's form (the package's text says when)."""
    names = {key for layer in layers for key in layer.entries}
    flat = {name for name in names - fields(Config).keys() if flat_home(name)}
    return "env" in names or bool(flat and not names & _OWN)


def structured(layer: Node) -> Node:
    """One file's keys moved to where they belong; where a key is spelt twice, structured wins."""
    moved = {
        key: node
        for key, node in layer.entries.items()
        if key not in fields(Config) and not (key == "env" and node.entries)
    }
    trees = [nested(flat_home(key) or ("env", key), node) for key, node in moved.items()]
    return in_place(reduce(merge, [Node({}, layer.mark), *trees, without(layer, *moved)]))


def translate(tree: Node, environ: Mapping[str, str]) -> Translation:
    """Turn the merged, structured tree of a SkillOpt chain into skillopt-ci's own form.

    What the files leave unset SkillOpt's variables in ``environ`` may say.
    """
    env, written = (tree.entries.get(key, Node({}, tree.mark)) for key in ("env", "model"))
    model = with_environment(written, environ)
    target = translate_role("target", model, environ, env)
    optimizer = translate_role("optimizer", model, environ)
    roles = {"target": target.node, "optimizer": optimizer.node}
    roles |= {key: node for key, node in model.entries.items() if key == "judge"}
    derived = {**_run_skill_tasks(env), "model": Node(roles, model.mark)}
    own = without(tree, "env", "model").entries
    kept = {key: _effective(key, node) if key in SHARED else node for key, node in own.items()}
    return Translation(
        merge(Node(derived, tree.mark), Node(kept, tree.mark)),
        (*clear_keys(tree), *target.problems, *optimizer.problems),
        (*ignored(tree), *target.warnings, *optimizer.warnings),
    )


def _effective(section: str, node: Node) -> Node:
    """A shared section's keys that mean something, with their values as they are spelt here."""
    known = section_keys(section)
    kept = {
        key: in_our_words(key, child)
        for key, child in node.entries.items()
        if given(child) and key in known
    }
    return Node(kept, node.mark)


def _run_skill_tasks(env: Node) -> dict[str, Node]:
    keys = {key: node for key, node in env.entries.items() if given(node)}
    run, skill = keys.get("out_root") or keys.get("name"), keys.get("skill_init")
    tasks = _tasks(keys)
    return (
        ({"run": Node(_slug(str(run.value)), run.mark)} if run else {})
        | ({"skill": skill} if skill else {})
        | ({"tasks": Node(tasks, env.mark)} if tasks else {})
    )


def _slug(text: str) -> str:
    last = text.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_]+", "-", last).strip("-_")[:_LONGEST_RUN]


def _tasks(keys: dict[str, Node]) -> dict[str, Node]:
    """`tasks` by ratio or by folder: what `split_mode` says if that can be, else what is there."""
    by_folder = {"split_dir": "split_dir", "limit": "limit"}
    by_ratio = {"data_path": "path", "split_ratio": "split", "split_seed": "seed", "limit": "limit"}
    wants_ratio = "split_mode" in keys and keys["split_mode"].value != "split_dir"
    if "data_path" in keys and (wants_ratio or "split_dir" not in keys):
        names = by_ratio
    else:
        names = by_folder if "split_dir" in keys else {}
    return {own: keys[name] for name, own in names.items() if name in keys}
