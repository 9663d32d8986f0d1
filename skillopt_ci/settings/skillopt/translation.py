"""Recognise SkillOpt's form and turn it into skillopt-ci's own."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from skillopt_ci.settings.config import Config
from skillopt_ci.settings.keys import fields
from skillopt_ci.settings.node import Node, merge, nested, without
from skillopt_ci.settings.problem import Problem
from skillopt_ci.settings.skillopt.environment import with_environment
from skillopt_ci.settings.skillopt.keys import (
    SHARED,
    clear_keys,
    flat_home,
    given,
    ignored,
    section_keys,
)
from skillopt_ci.settings.skillopt.roles import translate_role
from skillopt_ci.settings.skillopt.values import in_our_words, in_place

_OWN = frozenset({"run", "skill", "tasks"})
_LONGEST_RUN = 64


@dataclass(frozen=True, slots=True)
class Translation:
    """A tree in skillopt-ci's own form, with what is wrong and what was left out."""

    tree: Node
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


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
