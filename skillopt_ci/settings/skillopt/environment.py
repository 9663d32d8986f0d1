"""SkillOpt's environment variables, for keys of its `model` section that the files leave unset.

Keys of an API are not among them: a role names the variable, and only who calls reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from skillopt_ci.settings.node import Node
from skillopt_ci.settings.skillopt.keys import MODEL_KEYS, ROLE_KEYS, given

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
