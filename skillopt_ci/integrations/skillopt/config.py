"""Translate SkillOpt's configuration files into skillopt-ci's form."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from skillopt_ci.config.base import Section
from skillopt_ci.config.config import Config, Evaluation, Gradient, Optimizer, Train
from skillopt_ci.config.loading import Translation, shown
from skillopt_ci.config.reference import fields, homes
from skillopt_ci.config.yaml import (
    InvalidConfigError,
    Mark,
    Node,
    Problem,
    Scalar,
    lookup,
    merge,
    nested,
)
from skillopt_ci.integrations.skillopt.roles import (
    CALL_DEFAULTS,
    MODEL_KEYS,
    as_node,
    model_roles,
    spellings,
)
from skillopt_ci.util import did_you_mean

#: Sections that have the same keys in both forms.
SHARED: Mapping[str, type[Section]] = {
    "train": Train,
    "gradient": Gradient,
    "optimizer": Optimizer,
    "evaluation": Evaluation,
}
#: The supported keys of each section; sections that are not listed have the same keys as ours.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "env": (
        *("name", "skill_init", "out_root", "split_mode", "split_ratio", "split_seed"),
        *("split_dir", "data_path", "limit", "workers", *CALL_DEFAULTS),
    ),
    "model": MODEL_KEYS,
    **{section: tuple(fields(one)) for section, one in SHARED.items()},
}
#: Keys without a counterpart, each with the values that match our behaviour anyway.
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
#: Keys of the older, flat form whose place is not given by their name.
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
#: Keys of `model` that belong to another section here, and older spellings of its keys.
MOVED = {
    "rewrite_max_completion_tokens": ("optimizer", "rewrite_max_completion_tokens"),
    "codex_trace_to_optimizer": ("gradient", "trace_to_optimizer"),
    **dict.fromkeys(("codex_path", "codex_cli_bin", "codex_bin"), ("model", "codex_exec_path")),
    **dict.fromkeys(("sandbox", "codex_sandbox"), ("model", "codex_exec_sandbox")),
}

#: For each key, SkillOpt's words for a value, which may be in any case.
_WORDS: Mapping[str, Mapping[str, str]] = {
    "skill_update_mode": spellings(
        patch="edits",
        rewrite_from_suggestions="rewrite suggestions rewrite_suggestions",
        full_rewrite_minibatch="full_rewrite minibatch_full_rewrite skill_rewrite_minibatch",
    ),
    "lr_control_mode": spellings(
        fixed="manual scheduler scheduled",
        autonomous="auto optimizer",
        none="off no_lr false",  # YAML reads an unquoted `off` as false
    ),
    "longitudinal_pair_policy": spellings(
        mixed="default random all",
        changed="change delta 10_01 01_10",
        unchanged="stable same 00_11",
    ),
    "gate_metric": spellings(hard="", soft="", mixed=""),
    "split_mode": spellings(ratio="", split_dir=""),
}
#: SkillOpt's defaults that differ from ours.
_DEFAULTS: Mapping[tuple[str, ...], Scalar] = {
    ("gradient", "minibatch_size"): 8,
    ("gradient", "analysts"): 1,
    ("gradient", "failure_only"): False,
    ("optimizer", "learning_rate"): 4,
    ("optimizer", "min_learning_rate"): 2,
    ("optimizer", "lr_scheduler"): "cosine",
    ("train", "num_epochs"): 4,
    ("evaluation", "sel_env_num"): 0,
    ("evaluation", "gate", "look_every"): 16,
    ("model", "reasoning_effort"): "medium",
    ("evaluation", "confirm"): 0,
}
#: Keys of `env` that are whole numbers.
_NUMBERS = dict.fromkeys(("limit", "split_seed", "workers", *CALL_DEFAULTS), int)
#: The scorer that each benchmark's code uses.
_SCORERS = {"searchqa": "f1", "docvqa": "anls", "livemathematicianbench": "choice"}
#: Benchmarks whose rollout needs SkillOpt's own code, with the environment variables it reads.
_BRIDGED: Mapping[Scalar, tuple[str, ...]] = {
    "alfworld": ("ALFWORLD_DATA",),
    "officeqa": ("OFFICEQA_DOCS_DIR",),
    "spreadsheetbench": (),
}
_SURELY_MISSPELT = 0.85
_LONGEST_RUN = 64
#: The section and the key of a setting.
_Key = tuple[str, str]


def translated(
    layers: Sequence[Node],
    overrides: Sequence[Node],
    environ: Mapping[str, str],
    cwd: Path | None = None,
) -> Translation | None:
    """The merged configuration in our form; None if the files are not SkillOpt's."""
    names = {key for layer in layers for key in layer.entries}
    flat = any(map(_flat_home, names - fields(Config).keys()))
    if "env" not in names and not (flat and names.isdisjoint({"run", "skill", "tasks"})):
        return None
    keys, own, marks = _collected([*layers, *overrides])
    _refuse(keys, own)
    # In SkillOpt's files, only this name selects the adapter; keys of our own override it.
    name = keys.get(("env", "name"))
    replaced = own.entries.keys() & {"tasks", "environment", "scorer"}
    bridged = name is not None and name.value in _BRIDGED and not replaced
    # the adapter's own code may know keys of `env` that we do not
    adapted = bridged or lookup(own, ("environment", "type")).value == "skillopt"
    problems, warnings = list[Problem](), list[Problem]()
    sections: dict[str, dict[str, Node]] = {name: {} for name in _KEYS if name in marks}
    for (section, key), node in keys.items():
        is_secret = key.endswith("api_key")
        may_be_known = adapted and section == "env" and not is_secret
        if (text := _remark(section, key, node)) and not may_be_known:
            (problems if is_secret else warnings).append(
                Problem(node.mark, f"{section}.{key}", text)
            )
        if section == "env" or key in _KEYS[section]:
            sections[section][key] = _in_our_words(section, key, node, warnings)
    env, model = sections.pop("env", {}), sections.pop("model")
    roles = model_roles(model, env, marks["model"], environ, problems, warnings)
    derived = _run_skill_tasks(env, marks.get("env", own.mark), bridged)
    derived["model"] = Node(roles, marks["model"])
    if (named := own.entries.get("environment")) and named.value is not None:  # has its own tasks
        derived.pop("tasks", None)
    shared = {section: Node(given, marks[section]) for section, given in sections.items()}
    file = next((layer.mark.file for layer in reversed(layers) if layer.mark.file), Path())
    folder = file.absolute().parent
    result, root = _rooted(merge(Node({**derived, **shared}, own.mark), own), folder, cwd or folder)
    return Translation(result, tuple(dict.fromkeys(problems)), tuple(warnings), root)


def _collected(layers: Iterable[Node]) -> tuple[dict[_Key, Node], Node, dict[str, Mark]]:
    keys, own, marks = dict[_Key, Node](), list[Node](), dict[str, Mark]()
    for layer in layers:
        flat, structured, rest = dict[_Key, Node](), dict[_Key, Node](), dict[str, Node]()
        for name, node in layer.entries.items():
            if name in _KEYS and (name != "env" or node.entries):
                if node.value is not None and not isinstance(node.value, Mapping):
                    text = f"expected a mapping, found {shown((name,), node.value)}"
                    raise InvalidConfigError([Problem(node.mark, name, text)])
                structured |= {(name, key): one for key, one in node.entries.items()}
                marks[name] = node.mark
            elif name in fields(Config):
                rest[name] = node
            else:
                home = _flat_home(name) or ("env", name)
                flat[home] = node
                marks.setdefault(home[0], node.mark)
        # The structured spelling wins over the flat one; of older ones, the first listed.
        found = flat | structured
        older = [key for key in reversed(MOVED) if ("model", key) in found]
        moved = {MOVED[key]: found.pop(("model", key)) for key in older}
        for key, node in (moved | found).items():
            keys[key] = merge(keys[key], node) if key in keys else node
        own.append(Node(rest, layer.mark))
    stated = {key: node for key, node in keys.items() if node.value is not None}
    together = reduce(merge, own)
    for (section, name, *below), value in _DEFAULTS.items():
        home = section, name
        default = nested(below, Node(value, marks.setdefault(section, together.mark)))
        stated[home] = merge(default, stated[home]) if home in stated else default
    return {key: node for key, node in stated.items() if node.value != ""}, together, marks


def _refuse(keys: Mapping[_Key, Node], own: Node) -> None:
    named = {key for section, key in keys if section == "env"} | own.entries.keys()
    if named.isdisjoint({"name", "skill_init", "split_dir", "data_path", "run", "skill", "tasks"}):
        text = (
            "this file is a fragment, which names no environment, skill or tasks; use a file that "
            "builds on it (`_base_: FILE`), or state env.name, env.skill_init and env.split_dir"
        )
        raise InvalidConfigError([Problem(own.mark, "", text)])
    structures = [
        Problem(node.mark, f"{section}.{key}", f"expected one value, found a {kind}")
        for (section, key), node in keys.items()
        for form, kind in ((Mapping, "mapping"), (tuple, "list"))
        if isinstance(node.value, form) and section in ("env", "model")
        if key in _KEYS[section] and key not in ("target", "optimizer", "judge")
    ]
    if structures:
        raise InvalidConfigError(structures)


def _flat_home(name: str) -> _Key | None:
    of_model = name not in FLAT_NAMES and _FLAT_MODEL_KEY.match(name)
    return ("model", name) if of_model else _HOMES.get(name)


def _remark(section: str, name: str, node: Node) -> str:
    if name.endswith("api_key"):
        return (
            "a key does not belong in a file; remove the line and put the key into the "
            f"environment variable {name.upper().replace('AZURE_API', 'AZURE_OPENAI_API')}"
        )
    without_effect = _WITHOUT_COUNTERPART.get(section, {})
    if name in _KEYS[section] or node.value in without_effect.get(name, ()):
        return ""
    # all unknown keys of the flat form end up in `env`
    known = (*_HOMES, *MODEL_KEYS) if section == "env" else (*_KEYS[section], *homes(name))
    hint = "" if name in (*known, *without_effect) else did_you_mean(name, known, _SURELY_MISSPELT)
    return f"has no meaning here and is ignored{hint}"


def _in_our_words(section: str, key: str, node: Node, warnings: list[Problem]) -> Node:
    """The value in our spelling; unreadable values are reported later with all other problems."""
    value = node.value
    kind: Any = fields(SHARED[section])[key].annotation if section in SHARED else _NUMBERS.get(key)
    if key == "leading_words" and isinstance(value, str):
        words = filter(None, map(str.strip, value.split(",")))
        return replace(node, value=tuple(Node(word, node.mark) for word in words))
    if word := _WORDS.get(key, {}).get(str(value).strip().lower()):
        return replace(node, value=word)
    if kind not in (int, float, bool) or isinstance(value, (kind, bool)):
        return node
    try:
        read = TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return node
    if not (kind is float and isinstance(value, int)):
        text = f"{value!r} is read as {str(read).lower()}; write it without quotes or point"
        warnings.append(Problem(node.mark, f"{section}.{key}", text))
    return replace(node, value=read)


def _run_skill_tasks(keys: Mapping[str, Node], mark: Mark, bridged: bool) -> dict[str, Node]:
    found = dict[str, Node]()
    for node in filter(None, map(keys.get, ("name", "out_root"))):
        last = str(node.value).replace("\\", "/").rstrip("/").rpartition("/")[2]
        if slug := re.sub(r"[^A-Za-z0-9_]+", "-", last).strip("-_")[:_LONGEST_RUN]:
            found["run"] = Node(slug, node.mark)
    if "skill_init" in keys:
        found["skill"] = keys["skill_init"]
    if bridged:
        name, variables = keys["name"], _BRIDGED[str(keys["name"].value)]
        options = {"type": "skillopt", "adapter": name, "config": {"env": keys}, "env": variables}
        return {**found, "environment": as_node(options, mark)}
    if scorer := _SCORERS.get(str(keys["name"].value) if "name" in keys else ""):
        found["scorer"] = as_node({"type": scorer, "answer": "tag"}, keys["name"].mark)
    # Follow `split_mode` if possible, else whatever is given.
    wants_ratio = "split_mode" in keys and keys["split_mode"].value != "split_dir"
    if "data_path" in keys and (wants_ratio or "split_dir" not in keys):
        names = {"data_path": "path", "split_ratio": "split", "split_seed": "seed"}
    elif "split_dir" in keys:
        names = {"split_dir": "split_dir"}
    else:
        return found
    names["limit"] = "limit"
    tasks = {own: keys[name] for name, own in names.items() if name in keys}
    return {**found, "tasks": Node(tasks, mark)}


#: The places of paths in the translated tree.
_PATHS = (
    *(("skill",), ("prompts",)),
    *(("tasks", key) for key in ("split_dir", "path", "train", "selection", "test")),
)


def _rooted(tree: Node, folder: Path, here: Path) -> tuple[Node, Path]:
    given = {path: lookup(tree, path) for path in _PATHS}
    texts = {path: node.value for path, node in given.items() if isinstance(node.value, str)}
    names = {path: text for path, text in texts.items() if not Path(text).is_absolute()}
    if not any((here / name).exists() for name in names.values()):
        return tree, folder
    for path, name in names.items():
        if not (here / name).exists() and (folder / name).exists():
            there = Path(os.path.relpath(folder / name, here)).as_posix()
            tree = merge(tree, nested(path, replace(given[path], value=there)))
    return tree, here
