"""Read SkillOpt's configuration files as skillopt-ci's own form."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from skillopt_ci.config.base import Section
from skillopt_ci.config.config import Config, Evaluation, Gradient, Optimizer, Train
from skillopt_ci.config.loading import Translation
from skillopt_ci.config.models import PROVIDERS
from skillopt_ci.config.reference import fields, homes
from skillopt_ci.config.yaml import (
    InvalidConfigError,
    Mark,
    Node,
    Problem,
    Scalar,
    lookup,
    merge,
    nearest,
    nested,
    without,
)

#: Sections that have the same keys in both forms.
SHARED: Mapping[str, type[Section]] = {
    "train": Train,
    "gradient": Gradient,
    "optimizer": Optimizer,
    "evaluation": Evaluation,
}


def _prefixed(keys: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{prefix}_{key}" for prefix, names in keys.items() for key in names.split())


_SERVER_KEYS = "base_url temperature max_tokens timeout_seconds"
_AZURE_KEYS = "endpoint api_version auth_mode ad_scope managed_identity_client_id"
#: Keys of `model` that stand for both roles, or for one with its name in front.
_ROLE_KEYS = _prefixed(
    {
        "azure_openai": _AZURE_KEYS,
        "openai_compatible": _SERVER_KEYS,
        "qwen_chat": f"{_SERVER_KEYS} enable_thinking thinking_mode use_max_completion_tokens",
    }
)
_COMMON_KEYS = _prefixed(
    {
        "azure": "endpoint api_version",
        "claude_code_exec": "path effort max_thinking_tokens",
        "codex": "sandbox_mode",
        "codex_exec": "path sandbox profile reasoning_effort network_access web_search "
        "approval_policy",
        "copilot_chat": "optimizer_model target_model timeout",
        "copilot_exec": "path allow_all_tools",
        "cursor_exec": "path sandbox",
        "minimax": f"{_SERVER_KEYS} region model enable_thinking",
    }
)
#: The keys of each section that mean something here; those of the others are the same as ours.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "env": (
        *("name", "skill_init", "out_root", "split_mode", "split_ratio", "split_seed"),
        *("split_dir", "data_path", "limit", "workers", "exec_timeout"),
        "max_completion_tokens",
    ),
    "model": (
        *("backend", "optimizer", "target", "judge", "optimizer_backend", "target_backend"),
        *("reasoning_effort", *_COMMON_KEYS, *_ROLE_KEYS),
        *(f"{role}_{key}" for role in ("optimizer", "target") for key in _ROLE_KEYS),
    ),
    **{section: tuple(fields(one)) for section, one in SHARED.items()},
}
#: Keys without a counterpart, each with the values that say what happens here anyway.
_WITHOUT_COUNTERPART: Mapping[str, Mapping[str, tuple[Scalar, ...]]] = {
    "train": {"steps_per_epoch": ()},
    "gradient": {"max_analyst_rounds": ()},
    "optimizer": {"meta_learning_rate": ()},
    "env": {"max_turns": (1,)},
    "model": {
        "codex_exec_use_sdk": (False, "auto", "cli"),
        "claude_code_exec_use_sdk": (False, "auto", "cli"),
    },
}
#: Where keys of the older, flat form belong, if not under their own name.
FLAT_NAMES = {
    "model_backend": ("model", "backend"),
    "optimizer_model": ("model", "optimizer"),
    "target_model": ("model", "target"),
    "edit_budget": ("optimizer", "learning_rate"),
    "min_edit_budget": ("optimizer", "min_learning_rate"),
    "meta_edit_budget": ("optimizer", "meta_learning_rate"),
    "env": ("env", "name"),
    "sandbox": ("model", "sandbox"),
}
_HOMES: Mapping[str, tuple[str, str]] = (
    {key: ("env", key) for key in _KEYS["env"]}
    | {
        key: (section, key)
        for section in SHARED
        for key in (*_KEYS[section], *_WITHOUT_COUNTERPART.get(section, ()))
    }
    | FLAT_NAMES
)
_FLAT_MODEL_KEY = re.compile(
    r"(optimizer_|target_)?(azure_|qwen_chat_|minimax_|openai_compatible_|backend$)"
    r"|(codex|claude_code|cursor|copilot|rewrite)_|reasoning_effort$"
)
#: Keys of `model` that stand in another section here, and older spellings of its keys.
MOVED = {
    "rewrite_max_completion_tokens": ("optimizer", "rewrite_max_completion_tokens"),
    "codex_trace_to_optimizer": ("gradient", "trace_to_optimizer"),
    **dict.fromkeys(("codex_path", "codex_cli_bin", "codex_bin"), ("model", "codex_exec_path")),
    **dict.fromkeys(("sandbox", "codex_sandbox"), ("model", "codex_exec_sandbox")),
}


def _spellings(**words: str) -> Mapping[str, str]:
    """Each of SkillOpt's ``words`` for one of ours, with that."""
    return {word: ours for ours, said in words.items() for word in said.split()}


#: By key: SkillOpt's further words for a value.
_WORDS: Mapping[str, Mapping[str, str]] = {
    "skill_update_mode": _spellings(
        patch="edits",
        rewrite_from_suggestions="rewrite suggestions rewrite_suggestions",
        full_rewrite_minibatch="full_rewrite minibatch_full_rewrite skill_rewrite_minibatch",
    ),
    "lr_control_mode": _spellings(
        fixed="manual scheduler scheduled",
        autonomous="auto optimizer",
        none="off no_lr False",  # YAML reads a bare `off` as false
    ),
    "longitudinal_pair_policy": _spellings(
        mixed="default random all",
        changed="change delta 10_01 01_10",
        unchanged="stable same 00_11",
    ),
}
_BACKEND_WORDS = _spellings(
    openai_chat="azure azure-openai azure_openai openai",
    openai_compatible="compat openai-compatible openai_compatible_chat",
    claude_chat="claude anthropic",
    codex_exec="codex",
    cursor_exec="cursor cursor_agent",
    copilot_chat="copilot copilot_cli github_copilot",
    qwen_chat="qwen",
    minimax_chat="minimax",
)
_SIGN_IN_WORDS = _spellings(key="api_key", managed_identity="aad azure_ad")
#: Variables of keys that are not simply the keys in capitals.
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "optimizer": ("OPTIMIZER_DEPLOYMENT",),
    "target": ("TARGET_DEPLOYMENT",),
    "codex_exec_path": ("CODEX_EXEC_PATH", "CODEX_CLI_BIN"),
    "codex_exec_profile": ("CODEX_EXEC_PROFILE", "CODEX_PROFILE"),
    "claude_code_exec_path": ("CLAUDE_CODE_EXEC_PATH", "CLAUDE_CLI_BIN"),
    # as short as these keys are, their variables could be anybody's
    **dict.fromkeys(("backend", "judge", "reasoning_effort", "azure_endpoint"), ()),
    **{
        f"{role}_azure_openai_{key}": (
            f"{role}_azure_openai_{key}".upper(),
            f"AZURE_OPENAI_{role}_{key}".upper(),
        )
        for role in ("optimizer", "target")
        for key in _AZURE_KEYS.split()
    },
}
#: SkillOpt's own defaults, where ours differ.
_DEFAULTS: Mapping[str, Mapping[str, Scalar]] = {
    "gradient": {"minibatch_size": 8},
    "optimizer": {"lr_scheduler": "cosine"},
    "model": {"reasoning_effort": "medium"},
}
_CALL_DEFAULTS = {"exec_timeout": 120, "max_completion_tokens": 16_384}
#: Keys of `env` that are whole numbers.
_NUMBERS = ("limit", "split_seed", "workers", *_CALL_DEFAULTS)
#: What the code of each benchmark grades with.
_SCORERS = {"searchqa": "f1", "docvqa": "anls", "livemathematicianbench": "choice"}
#: Benchmarks whose rollout needs SkillOpt's own code (a simulator, a document search, workbooks),
#: with the variables that it reads.
_BRIDGED: Mapping[Scalar, tuple[str, ...]] = {
    "alfworld": ("ALFWORLD_DATA",),
    "officeqa": ("OFFICEQA_DOCS_DIR",),
    "spreadsheetbench": (),
}
#: The keys of `model` that may be mappings, in our own form.
_ROLES = {("model", role) for role in ("target", "optimizer", "judge")}
_SURELY_MISSPELT = 0.85
_LONGEST_RUN = 64


def translated(
    layers: Sequence[Node], overrides: Sequence[Node], environ: Mapping[str, str]
) -> Translation | None:
    """The merged configuration in skillopt-ci's own form; None if the files are not SkillOpt's.

    SkillOpt's variables in ``environ`` stand in for keys that the files leave unset.
    """
    names = {key for layer in layers for key in layer.entries}
    flat = any(_flat_home(name) for name in names - fields(Config).keys())
    if "env" not in names and not (flat and names.isdisjoint({"run", "skill", "tasks"})):
        return None
    tree = _with_defaults(reduce(merge, map(_structured, [*layers, *overrides])))
    _refuse_fragment(tree)
    _refuse_structures(tree)
    bridged = _bridged(tree)
    problems, warnings = _remarks(tree, bridged)
    env, model = _typed("env", _part(tree, "env"), warnings), _part(tree, "model")
    nodes = {key: node for key, node in model.entries.items() if key == "judge"}
    settings = _settings(model, environ)
    for name in ("target", "optimizer"):
        role = _Role(name, model, settings, environ, problems, warnings)
        nodes[name] = role.translated(_set(env) if name == "target" else {})
    derived = {**_run_skill_tasks(env, bridged), "model": Node(nodes, model.mark)}
    own = {
        key: _effective(key, node, warnings) if key in SHARED else node
        for key, node in without(tree, "env", "model").entries.items()
    }
    result = merge(Node(derived, tree.mark), Node(own, tree.mark))
    file = next((layer.mark.file for layer in reversed(layers) if layer.mark.file), Path())
    result, root = _rooted(result, file.absolute().parent)
    return Translation(result, tuple(dict.fromkeys(problems)), tuple(warnings), root)


def _with_defaults(tree: Node) -> Node:
    """``tree`` with SkillOpt's defaults for the keys that it does not state."""
    found = {}
    for section, defaults in _DEFAULTS.items():
        node = _part(tree, section)
        stated = {key for key, one in node.entries.items() if one.value is not None}
        values = {key: Node(one, node.mark) for key, one in defaults.items() if key not in stated}
        found[section] = Node(values, node.mark)
    return merge(tree, Node(found, tree.mark))


def _refuse_fragment(tree: Node) -> None:
    """Raise ConfigError for a file of common settings, which needs another one that builds on it.

    SkillOpt's `_base_/default.yaml` and `features/soft_gate.yaml` are such files.
    """
    named = _set(_part(tree, "env")).keys() | tree.entries.keys()
    if named.isdisjoint({"name", "skill_init", "split_dir", "data_path", "run", "skill", "tasks"}):
        text = (
            "this file is a fragment, which names no environment, skill or tasks; use a file that "
            "builds on it (`_base_: FILE`), or state env.name, env.skill_init and env.split_dir"
        )
        raise InvalidConfigError([Problem(tree.mark, "", text)])


def _refuse_structures(tree: Node) -> None:
    """Raise ConfigError for lists and mappings where SkillOpt has one value."""
    problems = [
        Problem(node.mark, f"{section}.{key}", f"expected one value, found a {kind}")
        for section in ("env", "model")
        for key, node in _part(tree, section).entries.items()
        for form, kind in ((Mapping, "mapping"), (tuple, "list"))
        if isinstance(node.value, form)
        if key in _KEYS[section] and (section, key) not in _ROLES
    ]
    if problems:
        raise InvalidConfigError(problems)


def _bridged(tree: Node) -> bool:
    """Whether the benchmark's own adapter does the work: the file names no other way."""
    name = _part(tree, "env").entries.get("name")
    given = tree.entries.keys() & {"tasks", "environment", "scorer"}
    return name is not None and name.value in _BRIDGED and not given


#: Where paths stand in the translated tree.
_PATHS = (
    *(("skill",), ("prompts",)),
    *(("tasks", key) for key in ("split_dir", "path", "train", "selection", "test")),
)


def _rooted(tree: Node, folder: Path) -> tuple[Node, Path]:
    """``tree`` and the folder in which its paths start: the working directory, as with SkillOpt.

    A path that leads nowhere from there starts in ``folder``, that of the file; if all of them do,
    that is the folder.
    """
    here, elsewhere = Path.cwd(), list[tuple[tuple[str, ...], Node]]()
    found = False
    for path in _PATHS:
        node = lookup(tree, path)
        if isinstance(node.value, str) and not Path(node.value).is_absolute():
            found = found or (here / node.value).exists()
            if not (here / node.value).exists() and (folder / node.value).exists():
                elsewhere.append((path, node))
    if not found:
        return tree, folder
    for path, node in elsewhere:
        name = Path(os.path.relpath(folder / str(node.value), here)).as_posix()
        tree = merge(tree, nested(path, replace(node, value=name)))
    return tree, here


def _part(tree: Node, section: str) -> Node:
    return tree.entries.get(section, Node({}, tree.mark))


def _set(node: Node) -> dict[str, Node]:
    """The keys that are set at all: SkillOpt's files spell out unset keys as null or empty text."""
    return {key: one for key, one in node.entries.items() if one.value not in (None, "")}


def _flat_home(name: str) -> tuple[str, str] | None:
    """The section and key that a flat name stands for; None for a name that is not SkillOpt's."""
    if name not in FLAT_NAMES and _FLAT_MODEL_KEY.match(name):
        return ("model", name)
    return _HOMES.get(name)


def _structured(layer: Node) -> Node:
    """One file's keys moved to where they belong; of two spellings the structured one wins."""
    flat = {
        key: node
        for key, node in layer.entries.items()
        if key not in fields(Config) and not (key == "env" and node.entries)
    }
    trees = [nested(_flat_home(key) or ("env", key), node) for key, node in flat.items()]
    tree = reduce(merge, [Node({}, layer.mark), *trees, without(layer, *flat)])
    model = _part(tree, "model").entries
    # the usual spelling wins, then the first one listed
    older = [nested(MOVED[key], model[key]) for key in reversed(MOVED) if key in model]
    if not older:
        return tree
    rest = replace(tree.entries["model"], value={k: v for k, v in model.items() if k not in MOVED})
    return reduce(merge, [*older, replace(tree, value={**tree.entries, "model": rest})])


def _remarks(tree: Node, bridged: bool) -> tuple[list[Problem], list[Problem]]:
    """Problems with API keys in the file, and warnings of keys that have no effect here.

    The keys of `env` are the adapter's where the tasks are ``bridged``.
    """
    problems, warnings = [], []
    for section, known in _KEYS.items():
        without_effect = _WITHOUT_COUNTERPART.get(section, {})
        for name, node in _set(_part(tree, section)).items():
            if name.endswith("api_key"):
                variable = name.upper().replace("AZURE_API", "AZURE_OPENAI_API")
                text = (
                    "a key does not belong in a file; remove the line and put the key into the "
                    f"environment variable {variable}"
                )
                problems.append(Problem(node.mark, f"{section}.{name}", text))
            elif bridged and section == "env":
                continue
            elif name not in known and node.value not in without_effect.get(name, ()):
                text = "has no meaning here and is ignored"
                if name not in without_effect:
                    text += nearest(name, (*known, *homes(name)), _SURELY_MISSPELT)
                warnings.append(Problem(node.mark, f"{section}.{name}", text))
    return problems, warnings


def _effective(section: str, node: Node, warnings: list[Problem]) -> Node:
    """A shared section's keys that mean something, with their values as they are spelt here."""
    kept = {key: one for key, one in _set(node).items() if key in _KEYS[section]}
    for key, child in kept.items():
        if key == "leading_words" and isinstance(child.value, str):
            words = filter(None, map(str.strip, child.value.split(",")))
            kept[key] = _node(tuple(words), child.mark)
        elif word := _WORDS.get(key, {}).get(str(child.value)):
            kept[key] = replace(child, value=word)
    return _typed(section, Node(kept, node.mark), warnings)


def _typed(section: str, node: Node, warnings: list[Problem]) -> Node:
    """``node`` with numbers and booleans where SkillOpt takes a text (or a number) for one."""
    if section == "env":
        kinds: dict[str, Any] = dict.fromkeys(_NUMBERS, int)
    else:
        kinds = {key: one.annotation for key, one in SHARED[section].model_fields.items()}
    typed = dict(node.entries)
    for key, child in node.entries.items():
        kind, value = kinds.get(key), child.value
        if kind not in (int, float, bool) or isinstance(value, (kind, bool)) or value in (None, ""):
            continue
        try:
            read = TypeAdapter(kind).validate_python(value)
        except ValidationError:
            continue  # refused with all other problems
        typed[key] = replace(child, value=read)
        if not (kind is float and isinstance(value, int)):
            text = f"{value!r} is read as {str(read).lower()}; write it without quotes or point"
            warnings.append(Problem(child.mark, f"{section}.{key}", text))
    return Node(typed, node.mark)


def _run_skill_tasks(env: Node, bridged: bool) -> dict[str, Node]:
    keys, found = _set(env), dict[str, Node]()
    if run := keys.get("out_root") or keys.get("name"):
        last = str(run.value).replace("\\", "/").rstrip("/").rpartition("/")[2]
        slug = re.sub(r"[^A-Za-z0-9_]+", "-", last).strip("-_")[:_LONGEST_RUN]
        found["run"] = Node(slug, run.mark)
    if "skill_init" in keys:
        found["skill"] = keys["skill_init"]
    if bridged:
        name, variables = keys["name"], _BRIDGED[str(keys["name"].value)]
        options = {"type": "skillopt", "adapter": name, "config": {"env": keys}, "env": variables}
        return {**found, "environment": _node(options, env.mark)}
    if scorer := _SCORERS.get(str(keys["name"].value) if "name" in keys else ""):
        found["scorer"] = _node({"type": scorer, "answer": "tag"}, keys["name"].mark)
    # What `split_mode` says if that can be, else what is there.
    wants_ratio = "split_mode" in keys and keys["split_mode"].value != "split_dir"
    if "data_path" in keys and (wants_ratio or "split_dir" not in keys):
        names = {"data_path": "path", "split_ratio": "split", "split_seed": "seed"}
    elif "split_dir" in keys:
        names = {"split_dir": "split_dir"}
    else:
        return found
    names["limit"] = "limit"
    tasks = {own: keys[name] for name, own in names.items() if name in keys}
    return {**found, "tasks": Node(tasks, env.mark)}


# Model roles: each backend of SkillOpt's as the fields of a role.


def _settings(model: Node, environ: Mapping[str, str]) -> dict[str, Node]:
    """What the section sets, and for the rest SkillOpt's variables in ``environ``."""
    found = {}
    for key in _KEYS["model"]:
        variables = _VARIABLES.get(key, (key.upper(),))
        if value := next((environ[name] for name in variables if environ.get(name)), None):
            found[key] = Node(value, model.mark)
    return found | {key: node for key, node in _set(model).items() if key in _KEYS["model"]}


_DEFAULT_MODEL = "gpt-5.5"
#: Names that stand for no choice with a backend that has none of OpenAI's models.
_PLACEHOLDERS = ("gpt-5.4", _DEFAULT_MODEL)
_FOR_BOTH_ROLES = ("openai_compatible", "claude_chat", "copilot_chat", "codex_exec")
_CALL_LIMITS = {"exec_timeout": "timeout", "workers": "max_concurrency"}
_Fields = dict[str, Any]


def _node(value: Any, mark: Mark) -> Node:
    """``value`` as a node; what has no place of its own is at ``mark``."""
    match value:
        case Node():
            return value
        case dict():
            return Node({key: _node(child, mark) for key, child in value.items()}, mark)
        case tuple():
            return Node(tuple(_node(child, mark) for child in value), mark)
    return Node(value, mark)


def _command(model: Node, env: str, *command: str) -> _Fields:
    """A role that is a ``command``, which sees the variables ``env``."""
    return {"provider": "command", "model": model, "command": command, "env": tuple(env.split())}


def _number(node: Node | None, default: float | None) -> Node | float | None:
    """A number that may be written as text; `none`, `off` and `null` mean: leave it out."""
    if node is None:
        return default
    if not isinstance(node.value, str):
        return node
    if node.value.lower() in ("none", "off", "null"):
        return replace(node, value=None)
    try:
        number = float(node.value)
    except ValueError:
        return node
    return replace(node, value=int(number) if number.is_integer() else number)


_SWITCHES = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}
_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")


@dataclass(frozen=True, slots=True)
class _Role:
    """The `model` section as one role sees it; ``environ`` tells which keys there are."""

    name: str
    section: Node
    settings: Mapping[str, Node]
    environ: Mapping[str, str]
    problems: list[Problem]
    warnings: list[Problem]

    def translated(self, calls: Mapping[str, Node]) -> Node:
        """The role in skillopt-ci's form; one that is a mapping already stays as it is.

        ``calls`` says how many calls may be under way, how long and how large.
        """
        current = self.settings.get(self.name)
        if current and current.entries:
            return current
        result = _BACKENDS.get(self.backend, _unavailable)(self)
        limits = dict(_CALL_LIMITS)
        if "command" not in result:  # which knows no limit of tokens
            limits["max_completion_tokens"] = "max_output_tokens"
        if self.name == "target":
            usual = {limits[key]: one for key, one in _CALL_DEFAULTS.items() if key in limits}
            result = {**usual, **result}
        result |= {own: calls[key] for key, own in limits.items() if key in calls}
        return _node(result, self.mark)

    @property
    def backend(self) -> str:
        """SkillOpt's name for what answers."""
        keys = (f"{self.name}_backend", "backend")
        words = (
            str(self.settings[key].value) if key in self.settings else "openai" for key in keys
        )
        own, shared = (_BACKEND_WORDS.get(word, word) for word in words)
        for_us = self.name == "target" or shared in _FOR_BOTH_ROLES
        return shared if own == "openai_chat" and for_us else own

    def get(self, *keys: str) -> Node | None:
        """The first of ``keys`` that is set, each for this role or else for both."""
        names = (name for key in keys for name in (f"{self.name}_{key}", key))
        return next((self.settings[name] for name in names if name in self.settings), None)

    def text(self, *keys: str, default: str = "") -> str:
        """The first of ``keys`` that is set, as text."""
        node = self.get(*keys)
        return str(node.value) if node else default

    def switch(self, key: str) -> bool | None:
        """Whether ``key`` is on, in any of SkillOpt's words; None if it is not set."""
        return _SWITCHES.get(self.choice(key, tuple(_SWITCHES), ""))

    def choice(self, key: str, known: Sequence[str], default: str) -> str:
        """The value of ``key``, which must be one of the ``known`` ones."""
        word = self.text(key, default=default)
        if word == default or word.lower() in known:
            return word.lower()
        name = next(one for one in (f"{self.name}_{key}", key) if one in self.settings)
        variable = "" if name in self.section.entries else f" in the variable {name.upper()}"
        text = f"{word!r}{variable} is not one of {', '.join(known)}"
        self.problems.append(Problem(self.settings[name].mark, f"model.{name}", text))
        return default

    def chosen(self, default: str = _DEFAULT_MODEL) -> Node:
        """The model's name; ``default`` if none is given, or a mere placeholder."""
        node = self.settings.get(self.name)
        if node is None or (default != _DEFAULT_MODEL and node.value in _PLACEHOLDERS):
            return Node(default, self.mark)
        return node

    @property
    def mark(self) -> Mark:
        """Where the role is mentioned, else where the section is."""
        return (self.section.entries.get(self.name) or self.section).mark

    def remark(self, text: str) -> Problem:
        """Something to say about the role as a whole."""
        return Problem(self.mark, f"model.{self.name}", text)


def _unavailable(role: _Role) -> _Fields:
    text = (
        f"the backend {role.backend!r} is not available; give a mapping instead: provider: openai "
        "with model, base_url and api_key_env, or provider: command with a command that reads the "
        "prompt on standard input and prints the answer"
    )
    role.problems.append(role.remark(text))
    return {"provider": "openai", "model": role.chosen()}


def _claude_chat(role: _Role) -> _Fields:
    return _claude(role, role.text("reasoning_effort"))


def _claude_code(role: _Role) -> _Fields:
    thinking = role.text("claude_code_exec_max_thinking_tokens", default="16384")
    # Whatever else it would like to use is denied, for there is nobody to ask.
    tools = ("--tools", "Read,Bash", "--allowedTools", "Read,Bash")
    effort = role.text("claude_code_exec_effort", default="medium")
    return _claude(role, effort, *tools, "--max-thinking-tokens", thinking)


def _claude(role: _Role, effort: str, *more: str) -> _Fields:
    model = role.chosen("claude-sonnet-4-6")
    known = {"": "", "none": "", "off": "", "low": "low", "high": "high", "max": "max"}
    wanted = {**known, "xhigh": "max"}.get(effort, "medium")
    return _command(
        model,
        "ANTHROPIC_API_KEY ANTHROPIC_BASE_URL CLAUDE_CODE_OAUTH_TOKEN",
        role.text("claude_code_exec_path", default="claude"),
        *("-p", "--output-format", "text"),
        # The project is an empty folder; the user's own settings must not colour the answers.
        *("--permission-mode", "dontAsk", "--setting-sources", "project"),
        *("--model", str(model.value)),
        *(("--effort", wanted) if wanted else ()),
        *more,
    )


def _codex(role: _Role) -> _Fields:
    model = role.chosen()
    if role.name == "target":
        sandbox = role.choice("codex_exec_sandbox", _SANDBOXES, "workspace-write")
    else:  # which answers from its prompt alone, and has a variable of its own
        sandbox = role.choice("codex_sandbox_mode", _SANDBOXES, "read-only")
    profile = role.text("codex_exec_profile")
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
        *("--sandbox", sandbox),
        *(("-p", profile) if profile else ()),
        *(part for setting in given for part in ("-c", setting)),
        *("-m", str(model.value), "-"),
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
    program, *arguments = PROVIDERS["copilot"].program
    return {
        "provider": "copilot",
        "model": role.get(f"copilot_chat_{role.name}_model") or role.chosen(),
        "timeout": _number(role.get("copilot_chat_timeout"), 600),
        "command": (role.text("copilot_exec_path", default=program), *arguments),
    }


def _copilot_agent(role: _Role) -> _Fields:
    """Copilot at work, with the tools that it may use without asking, as nobody is there to ask."""
    free = ("--allow-all-tools",) if role.switch("copilot_exec_allow_all_tools") else ()
    command = (
        role.text("copilot_exec_path", default="copilot"),
        *("-s", "--no-ask-user", "--no-color", "--no-custom-instructions"),
        *("--disable-builtin-mcps", *free, "--model", "{model}"),
    )
    model = role.get("copilot_chat_target_model") or role.chosen()
    return {**_copilot(role), "model": model, "command": command}


def _openai(role: _Role) -> _Fields:
    named = role.settings.get(f"{role.name}_azure_openai_endpoint")
    endpoint = named or role.get("azure_openai_endpoint", "azure_endpoint")
    effort = role.get("reasoning_effort")
    result: _Fields = {"model": role.chosen(), **({"reasoning_effort": effort} if effort else {})}
    if endpoint is None:
        text = (
            "there is neither azure_openai_endpoint nor AZURE_OPENAI_ENDPOINT, so OpenAI itself is "
            "called with OPENAI_API_KEY"
        )
        role.warnings.append(role.remark(text))
        return {**result, "provider": "openai", "api_key_env": "OPENAI_API_KEY"}
    address = str(endpoint.value).rstrip("/")
    variable = f"{role.name.upper()}_AZURE_OPENAI_API_KEY" if named else "AZURE_OPENAI_API_KEY"
    result["base_url"] = replace(endpoint, value=address)
    key = {"api_key_env": Node(variable, endpoint.mark)}
    # Whoever states no way to sign in has a key, or else is signed in already.
    usual = "key" if role.environ.get(variable) else "azure_cli"
    mode = role.get("azure_openai_auth_mode") or Node(usual, endpoint.mark)
    if mode.value in ("openai_compatible", "compat", "openai"):
        return {**result, **key, "provider": "openai"}
    auth = _SIGN_IN_WORDS.get(str(mode.value), str(mode.value))
    azure = {
        "auth": replace(mode, value=auth),
        # The v1 address knows no versions.
        "api_version": None
        if address.endswith("/v1")
        else role.get("azure_openai_api_version", "azure_api_version"),
        "scope": role.get("azure_openai_ad_scope"),
        "client_id": role.get("azure_openai_managed_identity_client_id"),
    }
    given = {name: node for name, node in azure.items() if node is not None}
    result |= {"provider": "azure", "azure": _node(given, endpoint.mark)}
    return {**result, **(key if auth == "key" else {})}


def _sampling(role: _Role, prefix: str, temperature: float | None) -> _Fields:
    return {
        "temperature": _number(role.get(f"{prefix}_temperature"), temperature),
        "max_output_tokens": _number(role.get(f"{prefix}_max_tokens"), 8000),
        "timeout": _number(role.get(f"{prefix}_timeout_seconds"), 300),
    }


def _compatible(role: _Role) -> _Fields:
    url = role.get("openai_compatible_base_url")
    if url is None:
        text = "OPENAI_COMPATIBLE_BASE_URL is not set, so https://api.openai.com/v1 is called"
        role.warnings.append(role.remark(text))
    name = "OPENAI_COMPATIBLE_API_KEY"
    own = f"{role.name.upper()}_{name}"
    return {
        "provider": "compatible",
        "model": role.chosen(),
        "base_url": url or "https://api.openai.com/v1",
        "api_key_env": own if role.environ.get(own) else name,
        "token_limit_field": "max_tokens",
        **_sampling(role, "openai_compatible", None),
    }


def _qwen(role: _Role) -> _Fields:
    newer = role.switch("qwen_chat_use_max_completion_tokens")
    result: _Fields = {
        "provider": "vllm",
        "model": role.chosen("Qwen/Qwen3.5-4B"),
        "base_url": role.get("qwen_chat_base_url") or "http://localhost:8000/v1",
        "token_limit_field": "max_completion_tokens" if newer else "max_tokens",
        **_sampling(role, "qwen_chat", 0.7),
    }
    names = (f"{role.name.upper()}_QWEN_CHAT_API_KEY", "QWEN_CHAT_API_KEY")
    # A server of one's own needs no key; only where there is one it is named.
    if name := next(filter(role.environ.get, names), None):
        result["api_key_env"] = name
    modes = ("server_default", "enabled", "disabled")
    mode = role.choice("qwen_chat_thinking_mode", modes, "")
    if not mode and role.switch("qwen_chat_enable_thinking"):
        mode = "enabled"  # as false it was the server's default
    if mode in ("enabled", "disabled"):
        result["thinking"] = mode == "enabled"
    return result


def _minimax(role: _Role) -> _Fields:
    result: _Fields = {
        "provider": "minimax",
        "model": role.get("minimax_model") or role.chosen("MiniMax-M3"),
        "api_key_env": "MINIMAX_API_KEY",
        **_sampling(role, "minimax", 0.7),
    }
    if url := role.get("minimax_base_url"):
        result["base_url"] = url
    elif region := role.get("minimax_region"):
        names = {"cn_zh": "cn", "global_en": "intl"}
        result["region"] = replace(region, value=names.get(str(region.value), region.value))
    thinking = role.switch("minimax_enable_thinking")
    return result if thinking is None else {**result, "thinking": thinking}


_BACKENDS: Mapping[str, Callable[[_Role], _Fields]] = {
    "claude_chat": _claude_chat,
    "claude_code_exec": _claude_code,
    "codex_exec": _codex,
    "copilot_chat": _copilot,
    "copilot_exec": _copilot_agent,
    "cursor_exec": _cursor,
    "minimax_chat": _minimax,
    "openai_chat": _openai,
    "openai_compatible": _compatible,
    "qwen_chat": _qwen,
}
