"""`_base_: other.yaml`: configuration files that build on each other."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skillopt_ci.config.yaml import (
    InvalidConfigError,
    Mark,
    Node,
    Problem,
    lookup,
    merge,
    nearest,
    parse_yaml,
    plain,
    without,
)

BASE = "_base_"


def read_layers(file: Path) -> tuple[Node, ...]:
    """The trees of a file's bases, the remotest first, and of the file itself.

    A base is found relative to the file that names it. Raises
    :class:`~skillopt_ci.errors.ConfigError` for a file that cannot be read and for a cycle.
    """
    layers: list[Node] = []
    chain: list[Path] = []
    following: tuple[Path, Mark] | None = (file, Mark(file))
    while following:
        current, asked = following
        _refuse_cycle(chain, current, asked)
        chain.append(current)
        tree = _read(current, asked)
        layers.insert(0, without(tree, BASE))
        following = _base(tree, current)
    return tuple(layers)


def _base(tree: Node, file: Path) -> tuple[Path, Mark] | None:
    node = tree.entries.get(BASE)
    if node is None:
        return None
    if isinstance(node.value, tuple):
        raise _inheritance_invalid(
            node.mark, "expected one file, found a list: let one base build on the next"
        )
    if not isinstance(node.value, str) or not node.value:
        raise _inheritance_invalid(node.mark, "expected the name of one file")
    return Path(os.path.normpath(file.parent / node.value)), node.mark


def _refuse_cycle(chain: list[Path], file: Path, asked: Mark) -> None:
    if file.resolve() in [seen.resolve() for seen in chain]:
        names = " → ".join(str(seen) for seen in [*chain, file])
        raise _inheritance_invalid(asked, f"these files build on each other in a circle: {names}")


def _read(file: Path, asked: Mark) -> Node:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        name = f"{file} " if asked.line else ""
        raise _inheritance_invalid(asked, f"{name}cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _inheritance_invalid(Mark(file), f"not UTF-8 text (byte {error.start})") from error
    tree = parse_yaml(text, Mark(file, 1))
    if not isinstance(tree.value, dict):
        raise _inheritance_invalid(
            Mark(file, 1), "expected a mapping of sections, such as `run:` and `skill:`"
        )
    return tree


def _inheritance_invalid(mark: Mark, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem(mark, BASE if mark.line else "", text)])


# `runs:` several runs in one file, each laid over what stands around the list.

RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Named:
    """One run of a configuration file: its name, and the tree that describes it."""

    name: str
    tree: Node


def runs_of(tree: Node) -> tuple[Named, ...]:
    """The runs that ``tree`` describes; one without a list is its own only run.

    What is no text as a name is left to validation, under the name it would print as. Raises
    :class:`~skillopt_ci.errors.ConfigError` for a list that is none, is empty, or names a run
    twice or not at all.
    """
    listed = tree.entries.get(RUNS)
    if listed is None:
        return (Named(_name(tree), tree),)
    if not isinstance(listed.value, tuple) or not listed.value:
        raise _runs_invalid(
            listed.mark, "expected a list of runs, each with `run:` and what is its own"
        )
    _refuse_bad_names(listed.value)
    common = without(tree, RUNS)
    return tuple(Named(_name(entry), merge(common, entry)) for entry in listed.value)


def choose_run(tree: Node, name: str | None) -> Node:
    """The tree of the run called ``name``; without one, of the only run there is.

    Raises :class:`~skillopt_ci.errors.ConfigError` that lists the names if it cannot be told.
    """
    runs = runs_of(tree)
    names = [run.name for run in runs]
    if name is None and len(runs) == 1:
        return runs[0].tree
    if name in names:
        return runs[names.index(name)].tree
    mark = lookup(tree, [RUNS if RUNS in tree.entries else "run"]).mark
    if name is None:
        raise InvalidConfigError(
            [Problem(mark, RUNS, f"which run? Name one with --run: {', '.join(names)}")]
        )
    hint = nearest(name, names) or f"; its runs are {', '.join(names)}"
    raise InvalidConfigError([Problem(mark, "", f"there is no run {name!r} in this file{hint}")])


def _refuse_bad_names(entries: Sequence[Node]) -> None:
    problems, seen = [], dict[str, Mark]()
    for entry in entries:
        name = _name(entry)
        if not name:
            problems.append(Problem(entry.mark, RUNS, "each run of the list needs its `run:`"))
        elif name in seen:
            problems.append(Problem(entry.mark, RUNS, f"{name!r} stands here a second time"))
        seen[name] = entry.mark
    if problems:
        raise InvalidConfigError(problems)


def _name(tree: Node) -> str:
    value = plain(tree.entries["run"]) if "run" in tree.entries else None
    return "" if value is None else str(value)


def _runs_invalid(mark: Mark, text: str) -> InvalidConfigError:
    return InvalidConfigError([Problem(mark, RUNS, text)])
