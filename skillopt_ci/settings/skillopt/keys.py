"""The keys of SkillOpt's configuration files: where they belong and which mean something here."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from skillopt_ci.settings.config import Config
from skillopt_ci.settings.keys import fields, homes, sections
from skillopt_ci.settings.node import Node, Scalar
from skillopt_ci.settings.problem import Problem, nearest

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
